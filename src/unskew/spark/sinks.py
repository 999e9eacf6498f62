"""Where the rows of a batch go.

A sink is called with the rows of a batch and the batch's number. A record fixes the rows before the first call. Every
later call for the same batch brings the same rows, in the same order and the same partitions. Such a call comes after
a crash, or from a second driver that has not noticed yet that it was replaced.

Sinks are plain values that can be pickled, so that they can run in another process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, CheckpointError, ColumnError
from unskew.spark.file_sink import FileSink, frame_writer
from unskew.spark.internals import is_connect
from unskew.spark.paths import qualified
from unskew.state.files import located

Sink = Callable[[DataFrame, int], None]

ALWAYS_THERE = ("parquet", "orc", "json", "csv", "text")
FILE_FORMATS = (*ALWAYS_THERE, "avro")
# the last before Spark 4.1, of what comes as a package of its own
NOT_INSTALLED = re.compile(r"\[(DATA_SOURCE_NOT_FOUND|\w+_DATA_SOURCE_NOT_ENABLED)\]|Failed to find data source")


def make_sink(
    spark: SparkSession,
    kind: str,
    options: Mapping[str, str],
    partition_by: tuple[str, ...],
    identity: str,
    query_name: str | None,
    schema: StructType,
    whole: bool = False,
) -> Sink:
    """Return the sink of a format, for the query whose lasting name is `identity`.

    ============================================  ==================================================================
    format                                        a batch that is written again
    ============================================  ==================================================================
    parquet, orc, json, csv, avro, text           replaces its own files with equal ones; see `FileSink`
    the same, where Python cannot reach the path  replaces its folder; see `FolderSink`
    delta                                         is skipped by Delta; see `AppendSink`
    memory, console, noop                         replaces its rows in the view; is printed again; does nothing
    any other                                     is appended again: at least once
    ============================================  ==================================================================

    ``memory``, ``console`` and ``noop`` have no folders and ignore `partition_by`. With `whole`, the rows of a batch
    replace those of all batches before. What cannot work is refused here, with `ArgumentError` or `ColumnError`.
    """
    name = kind.lower()
    _check_partition_columns(spark, partition_by, schema)
    if name == "console":
        return ConsoleSink(_rows_shown(options), (_option(options, "truncate") or "true").lower() == "true")
    if name == "memory":
        if not query_name:
            raise ArgumentError("a memory sink needs a name for its view", hint="call queryName(...) first")
        if is_connect(spark):
            raise ArgumentError(
                "on Spark Connect batches are written in another process, whose views your session does not see",
                where="format",
                got=kind,
                hint="write to parquet, or to a table with toTable",
            )
        return MemorySink(query_name, spark, whole)
    if name == "noop":
        return compute_and_drop
    _check_installed(spark, kind)
    if name in FILE_FORMATS:
        return _file_sink(spark, name, options, partition_by)
    if name == "delta":
        _path(options, kind)
        return AppendSink(kind, dict(options), partition_by, identity)
    return AppendSink(kind, dict(options), partition_by)


def make_table_sink(
    spark: SparkSession,
    table: str,
    kind: str | None,
    options: Mapping[str, str],
    partition_by: tuple[str, ...],
    identity: str,
    schema: StructType,
) -> Sink:
    """Return the sink that appends to a table of the catalog.

    If the table exists, you may leave out its format and its partition columns. If not, the first batch creates it, in
    Spark's default format (``spark.sql.sources.default``) unless `kind` names another.
    """
    _check_partition_columns(spark, partition_by, schema)
    if kind is not None:
        _check_installed(spark, kind)
    if spark.catalog.tableExists(table):
        columns = tuple(column.name for column in spark.catalog.listColumns(table) if column.isPartition)
        if partition_by and [name.lower() for name in partition_by] != [name.lower() for name in columns]:
            raise ArgumentError(
                f"the table is partitioned by {', '.join(columns) or 'no column'}",
                where=table,
                got=partition_by,
                hint="leave out partitionBy, or name the table's columns in their order",
            )
        kind, partition_by = kind or _provider(spark, table), columns
    kind = kind or str(spark.conf.get("spark.sql.sources.default"))
    return AppendSink(kind, dict(options), partition_by, identity if kind.lower() == "delta" else None, table)


@dataclass(frozen=True)
class FolderSink:
    """Files in folders ``batch_id=N``, each of which Spark overwrites as a whole.

    This serves places that Spark reaches and Python does not: a scheme that only Hadoop knows, or credentials that only
    Spark's settings hold. A batch that is written again after a crash doubles nothing. While it is being written, its
    folder is incomplete, and two drivers at once can leave rows missing or doubled in it.
    """

    kind: str
    path: str
    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    partition_by: tuple[str, ...] = ()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        writer = frame_writer(rows, self.kind, self.options, self.partition_by)
        writer.mode("overwrite").save(f"{self.path}/batch_id={batch_id}")


@dataclass(frozen=True)
class AppendSink:
    """Appends every batch, to a table if one is named. A batch that is written again is appended again.

    Delta is the exception: it is told the query's `identity` and the batch as a transaction (``txnAppId``,
    ``txnVersion``), and skips a transaction that it has.
    """

    kind: str
    options: Mapping[str, str] = field(repr=False)  # may hold passwords
    partition_by: tuple[str, ...] = ()
    identity: str | None = None
    table: str | None = None

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        transaction = {} if self.identity is None else {"txnAppId": self.identity, "txnVersion": str(batch_id)}
        writer = frame_writer(rows, self.kind, {**transaction, **self.options}, self.partition_by).mode("append")
        if self.table is None:
            writer.save()
        else:
            writer.saveAsTable(self.table)


@dataclass(frozen=True)
class ConsoleSink:
    """Prints the first rows of every batch."""

    rows_shown: int
    truncate: bool

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        print(f"-------------------------------------------\nBatch: {batch_id}")
        rows.show(self.rows_shown, self.truncate)


def compute_and_drop(rows: DataFrame, batch_id: int) -> None:
    """Be the ``noop`` sink."""
    rows.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True)
class MemorySink:
    """Keeps the rows of all batches, or of the last one, on the driver as a temporary view; for trying out.

    The view belongs to the user's session. A copy in another process has none, and takes the session of the rows.
    """

    view: str
    session: SparkSession | None = field(default=None, compare=False)
    whole: bool = False
    batches: dict[int, pa.Table] = field(default_factory=dict, compare=False)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        if self.whole:
            self.batches.clear()
        self.batches[batch_id] = rows.toArrow()
        everything = pa.concat_tables([self.batches[batch] for batch in sorted(self.batches)])
        spark = self.session or rows.sparkSession
        spark.createDataFrame(everything, schema=rows.schema).createOrReplaceTempView(self.view)

    def __reduce__(self) -> tuple[Any, ...]:
        return MemorySink, (self.view, None, self.whole, self.batches)


def _file_sink(spark: SparkSession, kind: str, options: Mapping[str, str], partition_by: tuple[str, ...]) -> Sink:
    path = qualified(spark, _path(options, kind))
    rest = {name: value for name, value in options.items() if name.lower() != "path"}
    try:
        filesystem, place = located(path)
        there = filesystem.get_file_info(place)
    except (CheckpointError, OSError):
        return FolderSink(kind, path, rest, partition_by)
    if there.type == pyarrow.fs.FileType.File:
        raise ArgumentError("the path of a sink is a file", where="path", got=path, hint="name a folder")
    return FileSink(kind, path, rest, partition_by)


def _option(options: Mapping[str, str], name: str) -> str | None:
    """Return an option by its name in any case, as Spark does."""
    return next((value for key, value in options.items() if key.lower() == name.lower()), None)


def _path(options: Mapping[str, str], kind: str) -> str:
    path = _option(options, "path")
    if not path:
        raise ArgumentError(f"a {kind} sink needs a path", hint='set option("path", ...) or call start(path)')
    return path


def _rows_shown(options: Mapping[str, str]) -> int:
    given = _option(options, "numRows") or "20"
    if not given.isdecimal():
        raise ArgumentError("the number of rows to print is not a number", where="numRows", got=given)
    return int(given)


def _provider(spark: SparkSession, table: str) -> str | None:
    details = spark.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()
    found = [row["data_type"] for row in details if row["col_name"] == "Provider"]  # a column may have that name, too
    return str(found[-1]) if found else None


def is_installed(spark: SparkSession, kind: str) -> bool:
    """Return whether the session knows a format."""
    if kind.lower() in ALWAYS_THERE:
        return True
    try:
        spark.read.format(kind).load()
    except Exception as error:  # most formats refuse to read without options, but first it shows if they are there
        return not NOT_INSTALLED.search(str(error))
    return True


def _check_installed(spark: SparkSession, kind: str) -> None:
    if not is_installed(spark, kind):
        raise ArgumentError(
            f"Spark has no format {kind!r}",
            where="format",
            hint="check the spelling, or add its package to spark.jars.packages before the session starts",
        )


def _check_partition_columns(spark: SparkSession, partition_by: tuple[str, ...], schema: StructType) -> None:
    exact = str(spark.conf.get("spark.sql.caseSensitive", "false")).lower() == "true"
    spelled = {name if exact else name.lower(): name for name in partition_by}
    columns = {name if exact else name.lower() for name in schema.names}
    for name, shown in spelled.items():
        if name not in columns or name == "batch_id":
            raise ColumnError(
                "rows cannot be partitioned by this column",
                where="partitionBy",
                got=shown,
                hint=f"choose from {', '.join(name for name in schema.names if name.lower() != 'batch_id')}",
            )
    if spelled and columns <= set(spelled):
        raise ColumnError(
            "no column is left beside those in partitionBy", where="partitionBy", got=partition_by, hint="leave one out"
        )
