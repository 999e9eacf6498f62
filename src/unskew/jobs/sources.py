"""The rows of a job: as a stream, and a sample of those that are there now."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError
from unskew.jobs.connectors import require_kafka
from unskew.jobs.job import Job
from unskew.jobs.places import FOLDERS, did_you_mean, local_path
from unskew.operators.durations import microseconds
from unskew.workloads.spark_source import register

T = TypeVar("T")

CSV_OPTIONS = {"header": "true", "inferSchema": "true"}
HADOOP_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")  # may name another filesystem
ENDLESS_ROWS = 1_000_000  # that stand for a source without end
MUST_EXIST = "the folder must exist when the job starts"


def require_source(job: Job) -> None:
    """Refuse a source on this machine that is not there."""
    place = job.from_place
    path = local_path(place.address) if place.kind in FOLDERS else None
    elsewhere = any(map(os.environ.get, HADOOP_VARIABLES)) or any("fs.defaultFS" in name for name in job.conf)
    elsewhere = elsewhere or not (job.master or "local").startswith("local")
    if path is None or set(place.address) & set("{[\\") or (elsewhere and not place.address.startswith("file:")):
        return  # only Spark can tell
    try:
        there = path.exists() or next(glob.iglob(str(path)), None) is not None  # noqa: PTH207
        beside = [each.name for each in path.parent.iterdir()] if path.parent.is_dir() else []
    except PermissionError:
        return
    if not there:
        near = did_you_mean(path.name, beside)
        hint = f"{near}; {MUST_EXIST}" if near.startswith("did") else MUST_EXIST
        raise ArgumentError("the source does not exist", where="source", got=job.source, hint=hint)


def stream_of(spark: SparkSession, job: Job) -> DataFrame:
    """Return the job's rows as a stream, with its columns, its condition and its watermark."""
    rows = _prepared(_explained(job, lambda: _source(spark, job, streaming=True)), job)
    if job.watermark is None:
        return rows
    column, _, delay = job.watermark.strip().partition(" ")
    if not delay:
        hint = '"time 10 minutes"'
        raise ArgumentError("a watermark is a column and a delay", where="watermark", got=job.watermark, hint=hint)
    microseconds(delay)  # raises if it is no duration
    return _clear(lambda: rows.withWatermark(column, delay), "watermark", job.watermark)


def sample_of(spark: SparkSession, job: Job, rows: int) -> DataFrame:
    """Return the first rows of those that are there now, at most this many."""
    return _prepared(_explained(job, lambda: _source(spark, job, streaming=False, sample_rows=rows)), job).limit(rows)


def rows_of(spark: SparkSession, job: Job) -> DataFrame:
    """Return all rows that are there now; of a source without end, some."""
    return _prepared(_explained(job, lambda: _source(spark, job, streaming=False, sample_rows=ENDLESS_ROWS)), job)


def _prepared(rows: DataFrame, job: Job) -> DataFrame:
    for name, expression in job.columns.items():
        rows = _clear(partial(_with_column, rows, name, expression), f"column {name}", expression)
    if job.where is not None:
        rows = _clear(partial(rows.where, job.where), "where", job.where)
    return rows


def _with_column(rows: DataFrame, name: str, expression: str) -> DataFrame:
    return rows.withColumn(name, sql.expr(expression))


def _source(spark: SparkSession, job: Job, *, streaming: bool, sample_rows: int = 0) -> DataFrame:
    place, options = job.from_place, dict(job.source_options)
    reader: Any = spark.readStream if streaming else spark.read
    rows: DataFrame
    if place.kind == "rate":
        if not streaming:
            now = sql.current_timestamp().alias("timestamp")
            return spark.range(sample_rows).select(now, sql.col("id").alias("value"))
        rows = reader.format("rate").options(**options).load()
    elif place.kind == "workload":
        register(spark)
        if not streaming:
            options = {name: options[name] for name in options if name.lower() not in ("batches", "rowsperbatch")}
            options["rowsPerBatch"] = sample_rows
        rows = reader.format("unskew").options(**{"workload": place.address, **options}).load()
    elif place.kind == "kafka":
        rows = _kafka(reader, job, *require_kafka(spark, place, "source"))
    else:
        rows = _folder(spark, reader, job)
    return rows


def _folder(spark: SparkSession, reader: Any, job: Job) -> DataFrame:
    place = job.from_place
    options = {**(CSV_OPTIONS if place.kind == "csv" else {}), **_as_text(job.source_options)}
    schema: Any
    if job.schema is None:
        # a stream has to know its columns before it begins; a reader of batches finds them out
        schema = spark.read.format(place.kind).options(**options).load(place.address).schema
    else:
        schema = _clear(partial(spark._parse_ddl, job.schema), "schema", job.schema)
    rows: DataFrame = reader.format(place.kind).options(**options).schema(schema).load(place.address)
    return rows


def _kafka(reader: Any, job: Job, servers: str, topic: str) -> DataFrame:
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
    """Read, and say in our own words what is wrong with the source."""
    try:
        return read()
    except PySparkException as error:
        hint = {
            "PATH_NOT_FOUND": MUST_EXIST,
            "UNABLE_TO_INFER_SCHEMA": "there are no rows to learn the columns from; give them with --schema",
        }.get(error.getCondition() or "", "see --source-option and --schema")
        what = f"this source cannot be read: {first_line(error)}"
        raise ArgumentError(what, where="source", got=job.source, hint=hint) from None


def _clear(do: Callable[[], T], where: str, got: object) -> T:
    try:
        return do()
    except PySparkException as error:
        verb = "does not understand" if isinstance(error, AnalysisException) else "refuses"
        raise ArgumentError(f"Spark {verb} this: {first_line(error)}", where=where, got=got) from None


def first_line(error: BaseException) -> str:
    r"""Return the first line of one of Spark's errors, without its class and code.

    >>> first_line(ValueError("[PATH_NOT_FOUND] Path does not exist: x. SQLSTATE: 42K03\nmore"))
    'Path does not exist: x'
    """
    line = str(error).strip().partition("\n")[0].partition(" SQLSTATE:")[0]
    if line.startswith("["):
        line = line.partition("] ")[2]
    return line.rstrip(" .;")
