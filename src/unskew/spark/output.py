"""A batch's output, materialised once: the user's rows apart from the channels' reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from unskew.operators import Mergeable, Operator
from unskew.operators.partials import merge_partials
from unskew.spark.channel import PARTIALS, REPORT, ROWS
from unskew.spark.packing import unpack
from unskew.spark.reports import ChannelReport

FITS_ON_THE_DRIVER = 32 << 20


@dataclass(frozen=True, eq=False)
class BatchOutput:
    """What a batch produced.

    Parameters
    ----------
    rows
        The user's rows; may be read any number of times, or not at all.
    reports
        What the channels reported.
    bytes
        Size of the packed rows.
    """

    rows: DataFrame
    reports: list[ChannelReport]
    bytes: int


@contextmanager
def materialised(
    output: DataFrame, schema: StructType, operator: Operator, expected_bytes: int | None
) -> Iterator[BatchOutput]:
    """Run the batch, once, and keep its output until the block ends.

    Small outputs (as the last batch's size lets one expect) come to the driver in one job, and stay valid whatever
    executor dies. Others, and the first, stay on the executors: if one of those dies with its part, the batch fails
    and runs again from the checkpoint; it is never computed a second time beside the first.
    """
    if expected_bytes is not None and expected_bytes < FITS_ON_THE_DRIVER:
        yield _on_the_driver(output, schema, operator)
        return
    batch = output.localCheckpoint(eager=True)
    try:
        yield _on_executors(batch, schema, operator)
    finally:
        _release(batch)


def _on_the_driver(output: DataFrame, schema: StructType, operator: Operator) -> BatchOutput:
    batch = output.toArrow()
    payloads = _by_kind(batch)
    tables = [unpack(blob) for blob in payloads[ROWS]] + _totals(payloads[PARTIALS], operator)
    reports = [ChannelReport.from_bytes(blob) for blob in payloads[REPORT]]
    rows = _data_frame(output.sparkSession, tables, schema)
    return BatchOutput(rows, reports, sum(map(len, payloads[ROWS])))


def _on_executors(batch: DataFrame, schema: StructType, operator: Operator) -> BatchOutput:
    large = sql.col("kind") == ROWS
    small = batch.withColumn("bytes", sql.length("payload")).withColumn("payload", sql.when(~large, sql.col("payload")))
    found = small.toArrow()
    payloads = _by_kind(found)
    rows = batch.where(large).select("payload").mapInArrow(_unpack_rows, schema)
    totals = _totals(payloads[PARTIALS], operator)
    if totals:
        rows = rows.union(_data_frame(batch.sparkSession, totals, schema))
    reports = [ChannelReport.from_bytes(blob) for blob in payloads[REPORT]]
    sizes = found.filter(pc.equal(found["kind"], ROWS))["bytes"]
    return BatchOutput(rows, reports, pc.sum(sizes).as_py() or 0)


def _by_kind(batch: pa.Table) -> dict[str, list[bytes]]:
    """Return the payloads of each kind, in the order of the channels."""
    batch = batch.take(pc.sort_indices(batch["channel"]))
    return {
        kind: batch.filter(pc.equal(batch["kind"], kind))["payload"].to_pylist() for kind in (ROWS, PARTIALS, REPORT)
    }


def _totals(partials: list[bytes], operator: Operator) -> list[pa.Table]:
    """Return the rows of split keys, made of the parts that their channels hold."""
    if not partials or not isinstance(operator, Mergeable):
        return []
    return [merge_partials(operator, [unpack(blob) for blob in partials])]


def _data_frame(spark: SparkSession, tables: list[pa.Table], schema: StructType) -> DataFrame:
    arrow = to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone"))
    rows = [table.cast(arrow) for table in tables]
    return spark.createDataFrame(pa.concat_tables(rows) if rows else arrow.empty_table(), schema=schema)


def _unpack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("payload"):
            yield from unpack(blob.as_buffer()).to_batches()


def _release(batch: DataFrame) -> None:
    """Give back the memory of a materialised batch without waiting for the garbage collector."""
    plan: Any = batch._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() == "LogicalRDD":
        plan.rdd().unpersist(False)
