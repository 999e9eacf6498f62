"""The rows of a job: as a stream, and a sample of them as they lie there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError, UnskewError
from unskew.jobs.job import Job
from unskew.jobs.kafka import require_kafka
from unskew.jobs.places import FOLDERS
from unskew.operators.durations import microseconds
from unskew.workloads.spark_source import register

T = TypeVar("T")

CSV_OPTIONS = {"header": "true", "inferSchema": "true"}


def stream_of(spark: SparkSession, job: Job) -> DataFrame:
    """Return the job's rows as a stream, with its columns, its condition and its watermark."""
    rows = _prepared(_explained(job, lambda: _source(spark, job, streaming=True)), job)
    if job.watermark is None:
        return rows
    column, _, delay = job.watermark.strip().partition(" ")
    if not delay:
        raise ArgumentError(
            "a watermark is a column and a delay", where="watermark", got=job.watermark, hint='"time 10 minutes"'
        )
    microseconds(delay)  # raises if it is no duration
    return _clear(lambda: rows.withWatermark(column, delay), "watermark", job.watermark)


def sample_of(spark: SparkSession, job: Job, rows: int) -> DataFrame:
    """Return the first so many of the rows that are there now."""
    return _prepared(_explained(job, lambda: _source(spark, job, streaming=False, sample_rows=rows)), job).limit(rows)


def _prepared(rows: DataFrame, job: Job) -> DataFrame:
    for name, expression in job.columns.items():
        rows = _clear(partial(_with_column, rows, name, expression), f"column {name}", expression)
    if job.where is not None:
        condition = job.where
        rows = _clear(lambda: rows.where(condition), "where", condition)
    return rows


def _with_column(rows: DataFrame, name: str, expression: str) -> DataFrame:
    return rows.withColumn(name, sql.expr(expression))


def _source(spark: SparkSession, job: Job, *, streaming: bool, sample_rows: int = 0) -> DataFrame:
    place = job.from_place
    reader: Any = spark.readStream if streaming else spark.read
    if place.kind == "rate":
        if streaming:
            return reader.format("rate").options(**job.source_options).load()  # type: ignore[no-any-return]
        return spark.range(sample_rows).select(sql.current_timestamp().alias("timestamp"), sql.col("id").alias("value"))
    if place.kind == "workload":
        register(spark)
        options: dict[str, Any] = {"workload": place.address, **job.source_options}
        if not streaming:
            options = {
                name: value for name, value in options.items() if name.lower() not in ("batches", "rowsperbatch")
            }
            options["rowsPerBatch"] = sample_rows
        return reader.format("unskew").options(**options).load()  # type: ignore[no-any-return]
    if place.kind == "kafka":
        return _kafka(reader, job, require_kafka(spark, place, "source"))
    return _folder(spark, reader, job)


def _folder(spark: SparkSession, reader: Any, job: Job) -> DataFrame:
    place, options = job.from_place, _as_text(job.source_options)
    assert place.kind in FOLDERS
    if place.kind == "csv":
        options = {**CSV_OPTIONS, **options}
    given = job.schema
    if given is None:
        # a stream has to know its columns before it begins; a reader of batches finds them out
        schema = spark.read.format(place.kind).options(**options).load(place.address).schema
    else:
        parsed: Any = _clear(lambda: spark._parse_ddl(given), "schema", given)
        schema = parsed
    rows: DataFrame = reader.format(place.kind).options(**options).schema(schema).load(place.address)
    return rows


def _kafka(reader: Any, job: Job, servers_and_topic: tuple[str, str]) -> DataFrame:
    servers, topic = servers_and_topic
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic, "startingOffsets": "earliest"}
    rows: DataFrame = reader.format("kafka").options(**{**options, **_as_text(job.source_options)}).load()
    text = {name: sql.col(name).cast("string") for name in ("key", "value")}
    if job.schema is None:
        return rows.withColumns(text)
    parsed = sql.from_json(text["value"], job.schema).alias("value")
    return rows.select(parsed, "timestamp").select("value.*", sql.col("timestamp").alias("kafka_timestamp"))


def _as_text(options: Any) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}


def _explained(job: Job, read: Callable[[], DataFrame]) -> DataFrame:
    """Read, and say what is wrong with the source in our own words."""
    try:
        return read()
    except UnskewError:
        raise
    except PySparkException as error:
        hint = {
            "PATH_NOT_FOUND": "the folder must exist when the job starts",
            "UNABLE_TO_INFER_SCHEMA": "there are no rows to learn the columns from; give them with --schema",
        }.get(error.getCondition() or "", "see --source-option and --schema")
        raise ArgumentError(
            f"this source cannot be read: {first_line(error)}", where="source", got=job.source, hint=hint
        ) from None


def _clear(do: Callable[[], T], where: str, got: object) -> T:
    try:
        return do()
    except AnalysisException as error:
        raise ArgumentError(f"Spark does not understand this: {first_line(error)}", where=where, got=got) from None
    except PySparkException as error:
        raise ArgumentError(f"Spark refuses this: {first_line(error)}", where=where, got=got) from None


def first_line(error: BaseException) -> str:
    r"""Return the first line of an error of Spark's, without its class and code.

    Examples
    --------
    >>> first_line(ValueError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\nmore"))
    'Path does not exist: x'
    """
    line = str(error).strip().partition("\n")[0].partition(" SQLSTATE:")[0]
    if line.startswith("["):
        line = line.partition("] ")[2]
    return line.rstrip(" .;")
