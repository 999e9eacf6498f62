"""A batch's output, materialised once: the user's rows apart from the channels' reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from unskew.spark.channel import REPORT, ROWS
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
def materialised(output: DataFrame, schema: StructType, expected_bytes: int | None) -> Iterator[BatchOutput]:
    """Run the batch, once, and keep its output until the block ends.

    Small outputs (as the last batch's size lets one expect) come to the driver in one job, and stay valid whatever
    executor dies. Others, and the first, stay on the executors: if one of those dies with its part, the batch fails
    and runs again from the checkpoint; it is never computed a second time beside the first.
    """
    if expected_bytes is not None and expected_bytes < FITS_ON_THE_DRIVER:
        yield _on_the_driver(output, schema)
        return
    batch = output.localCheckpoint(eager=True)
    try:
        yield _on_executors(batch, schema)
    finally:
        _release(batch)


def _on_the_driver(output: DataFrame, schema: StructType) -> BatchOutput:
    batch = output.select("kind", "payload").toArrow()
    blobs = {kind: batch.filter(pc.equal(batch["kind"], kind))["payload"].to_pylist() for kind in (ROWS, REPORT)}
    spark = output.sparkSession
    arrow = to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone"))
    tables = [unpack(blob).cast(arrow) for blob in blobs[ROWS]]
    rows = spark.createDataFrame(pa.concat_tables(tables) if tables else arrow.empty_table(), schema=schema)
    reports = [ChannelReport.from_bytes(blob) for blob in blobs[REPORT]]
    return BatchOutput(rows, reports, sum(map(len, blobs[ROWS])))


def _on_executors(batch: DataFrame, schema: StructType) -> BatchOutput:
    payloads = batch.select("kind", sql.length("payload").alias("bytes"), "payload")
    small = payloads.withColumn("payload", sql.when(sql.col("kind") == REPORT, sql.col("payload"))).collect()
    rows = batch.where(batch.kind == ROWS).select("payload").mapInArrow(_unpack_rows, schema)
    reports = [ChannelReport.from_bytes(bytes(row.payload)) for row in small if row.kind == REPORT]
    return BatchOutput(rows, reports, sum(row.bytes for row in small if row.kind == ROWS))


def _unpack_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for blob in batch.column("payload"):
            yield from unpack(blob.as_buffer()).to_batches()


def _release(batch: DataFrame) -> None:
    """Give back the memory of a materialised batch without waiting for the garbage collector."""
    plan: Any = batch._jdf.queryExecution().analyzed()
    if plan.getClass().getSimpleName() == "LogicalRDD":
        plan.rdd().unpersist(False)
