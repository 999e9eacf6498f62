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
from unskew.spark.channel import MANY_ROWS, PARTIALS, REPORT, ROWS
from unskew.spark.packing import unpack
from unskew.spark.reports import ChannelReport

TINY_BYTES, MUCH_STATE_BYTES = 4 << 20, 32 << 20


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
        Size of the packed rows; None if there are too many for the driver.
    """

    rows: DataFrame
    reports: list[ChannelReport]
    bytes: int | None


@contextmanager
def materialised(
    output: DataFrame, schema: StructType, operator: Operator, last_bytes: int | None, state_bytes: int
) -> Iterator[BatchOutput]:
    """Run the batch, once, and keep its output until the block ends.

    One job runs it, keeps what it gives on the executors and brings along to the driver what is small (the channels
    say what is, see `unskew.spark.channel.ChannelSettings`). If that is everything, it stays valid whatever executor
    dies. Else the rows are read from the executors: if one of those dies with its part, the batch fails and runs again
    from the checkpoint; it is never computed a second time beside the first.

    Keeping it takes some tens of milliseconds. Where the last output was tiny, and nothing much can burst out, as state
    does when windows close or keys time out, all of it comes to the driver and nothing is kept.
    """
    may_burst = operator.time_mode != "none" and state_bytes >= MUCH_STATE_BYTES
    if last_bytes is not None and last_bytes < TINY_BYTES and not may_burst:
        payloads = _by_kind(output.toArrow())
        yield _on_the_driver(output.sparkSession, payloads, schema, operator)
        return
    batch = output.localCheckpoint(eager=False)
    kept = _kept(batch)
    try:
        here = sql.when(sql.col("kind") != MANY_ROWS, sql.col("payload")).alias("payload")
        payloads = _by_kind(batch.select("kind", "channel", here).toArrow())
        if payloads[MANY_ROWS]:
            yield _on_executors(batch, kept, payloads, schema, operator)
        else:
            yield _on_the_driver(output.sparkSession, payloads, schema, operator)
    finally:
        kept.unpersist(False)


def _on_the_driver(
    spark: SparkSession, payloads: dict[str, list[bytes]], schema: StructType, operator: Operator
) -> BatchOutput:
    packed = payloads[ROWS] + payloads[MANY_ROWS]
    rows = _data_frame(spark, [unpack(blob) for blob in packed] + _totals(payloads[PARTIALS], operator), schema)
    return BatchOutput(rows, _reports(payloads), sum(map(len, packed)))


def _on_executors(
    batch: DataFrame, kept: Any, payloads: dict[str, list[bytes]], schema: StructType, operator: Operator
) -> BatchOutput:
    found = _read_again(batch, kept).where(sql.col("kind").isin(ROWS, MANY_ROWS))
    rows = found.select("payload").mapInArrow(_unpack_rows, schema)
    totals = _totals(payloads[PARTIALS], operator)
    if totals:
        rows = rows.union(_data_frame(batch.sparkSession, totals, schema))
    return BatchOutput(rows, _reports(payloads), None)


def _reports(payloads: dict[str, list[bytes]]) -> list[ChannelReport]:
    return [ChannelReport.from_bytes(blob) for blob in payloads[REPORT]]


def _kept(batch: DataFrame) -> Any:
    """Return the RDD behind a local checkpoint that is not taken yet, and have it kept without a checkpoint.

    Spark would take it after the job, and compute again what has been lost by then, while the job's own results stay.
    """
    plan, jvm = batch._jdf.queryExecution().analyzed(), batch.sparkSession.sparkContext._jvm
    rdd: Any = plan.rdd()
    getattr(rdd, "checkpointData_$eq")(jvm.scala.Option.empty())  # type: ignore[union-attr]
    return rdd


def _read_again(batch: DataFrame, kept: Any) -> DataFrame:
    """Return what is kept of a batch, read from where it is kept or not at all."""
    context: Any = batch.sparkSession.sparkContext
    inner: Any = batch.sparkSession._jsparkSession
    storage, partitions = context._jvm.org.apache.spark.storage, kept.getNumPartitions()
    blocks = context._gateway.new_array(storage.BlockId, partitions)
    for partition in range(partitions):
        blocks[partition] = storage.RDDBlockId(kept.id(), partition)
    rdd = context._jvm.org.apache.spark.rdd.BlockRDD(kept.sparkContext(), blocks, kept.elementClassTag())
    return DataFrame(inner.internalCreateDataFrame(rdd, batch._jdf.schema(), False), batch.sparkSession)


def _by_kind(batch: pa.Table) -> dict[str, list[bytes]]:
    """Return the payloads of each kind, in the order of the channels."""
    batch = batch.take(pc.sort_indices(batch["channel"]))
    return {
        kind: batch.filter(pc.equal(batch["kind"], kind))["payload"].to_pylist()
        for kind in (ROWS, MANY_ROWS, PARTIALS, REPORT)
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
