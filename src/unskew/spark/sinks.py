"""Where the rows of a batch go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unskew.errors import ArgumentError

Sink = Callable[[DataFrame, int], None]

FILE_FORMATS = ("parquet", "orc", "json", "csv", "avro", "text")


def make_sink(
    spark: SparkSession, kind: str, options: Mapping[str, str], identity: str, query_name: str | None
) -> Sink:
    """Return the sink of a format by name.

    File formats write each batch to its own folder ``batch_id=N`` and overwrite it, so that a batch that runs again
    duplicates nothing. ``delta`` is told the query's `identity` and the batch as a transaction (``txnAppId``,
    ``txnVersion``), by which it passes over what it has already. ``memory`` keeps the batches in a view named like the
    query, ``console`` prints them. Any other format is appended to, and is at-least-once: a batch that runs again is
    written again.
    """
    if kind == "console":
        return _console(int(options.get("numRows", 20)), options.get("truncate", "true").lower() == "true")
    if kind == "memory":
        if not query_name:
            raise ArgumentError("a memory sink needs a name for its view", hint="call queryName(...) first")
        return _Memory(spark, query_name)
    if kind == "noop":
        return lambda rows, batch_id: rows.write.format("noop").mode("overwrite").save()
    if kind == "delta":
        return lambda rows, batch_id: _append(
            rows, kind, {"txnAppId": identity, "txnVersion": str(batch_id), **options}
        )
    if kind in FILE_FORMATS:
        return _files(kind, options)
    return lambda rows, batch_id: _append(rows, kind, options)


def _append(rows: DataFrame, kind: str, options: Mapping[str, str]) -> None:
    rows.write.format(kind).mode("append").options(**options).save()


def _files(kind: str, options: Mapping[str, str]) -> Sink:
    path = options.get("path")
    if not path:
        raise ArgumentError(f"a {kind} sink needs a path", hint='set option("path", ...) or call start(path)')
    rest = {name: value for name, value in options.items() if name != "path"}

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.format(kind).options(**rest).mode("overwrite").save(f"{path}/batch_id={batch_id}")

    return write


def _console(rows_shown: int, truncate: bool) -> Sink:
    def show(rows: DataFrame, batch_id: int) -> None:
        print(f"-------------------------------------------\nBatch: {batch_id}")
        rows.show(rows_shown, truncate)

    return show


class _Memory:
    """Keeps the rows of all batches on the driver, as a view of the user's session; for trying out."""

    def __init__(self, spark: SparkSession, view: str) -> None:
        self._spark, self._view = spark, view
        self._batches: dict[int, pa.Table] = {}

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self._batches[batch_id] = rows.toArrow()
        everything = pa.concat_tables([self._batches[batch] for batch in sorted(self._batches)])
        self._spark.createDataFrame(everything, schema=rows.schema).createOrReplaceTempView(self._view)
