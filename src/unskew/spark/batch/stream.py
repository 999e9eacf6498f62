"""Grouped functions on streams: as Spark does, every micro-batch is grouped on its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from unskew.spark.batch.balanced import BalancedBatch, BatchPair, Spread
from unskew.spark.batch.functions import Form
from unskew.spark.check import check_session
from unskew.spark.paths import qualified
from unskew.spark.sinks import Sink
from unskew.spark.writer import BalancedWriter

Grouped = Callable[[DataFrame], DataFrame]  # groups the rows of a batch, balanced, and calls the function

SIDE, LEFT, RIGHT = "side", "left", "right"


@dataclass(frozen=True, eq=False)
class BatchStage:
    """A stream whose batches are grouped, each balanced by its own counts; `writeStream` starts it.

    Nothing is kept from batch to batch, so there is no state and no record. After a failure Spark runs a batch again,
    and the function is called again.
    """

    events: DataFrame
    grouped: Grouped
    output_schema: StructType
    output_mode: str = "append"

    @property
    def writeStream(self) -> BatchWriter:  # noqa: N802
        """Say how to write the stream, then start it. It has the methods of Spark's `DataStreamWriter`."""
        return BatchWriter(self)


class BatchWriter(BalancedWriter):
    """Starts a stream of batches that are grouped one by one. Its query is Spark's own `StreamingQuery`."""

    def outputMode(self, outputMode: str) -> Self:  # noqa: N802, N803
        """Set the output mode, ``"append"`` or ``"update"``; the rows are the same."""
        self._stage = replace(self._stage, output_mode=outputMode)
        return self

    def _start(self, sink_of: Callable[..., Sink]) -> Any:
        stage = self._stage
        check_session(stage.events.sparkSession)
        checkpoint = qualified(stage.events.sparkSession, self._checkpoint())
        sink = sink_of(identity=checkpoint, schema=stage.output_schema)
        writer = stage.events.writeStream.outputMode(stage.output_mode).option("checkpointLocation", checkpoint)
        return self._started(writer.foreachBatch(OneByOne(stage.grouped, sink)))


@dataclass(frozen=True)
class OneByOne:
    """The function that ``foreachBatch`` is given. The rows are kept while their batch runs: they are read twice."""

    grouped: Grouped
    sink: Sink

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        kept: Any = rows.persist()
        try:
            self.sink(self.grouped(kept), batch_id)
        finally:
            kept.unpersist()


@dataclass(frozen=True)
class OfBatch:
    """Calls a function for every key of a batch. It holds no DataFrame, since it may run in another process."""

    spread: Spread
    form: Form
    function: Callable[..., Any]
    schema: StructType

    def __call__(self, rows: DataFrame) -> DataFrame:
        return BalancedBatch(rows, self.spread).call(self.form, self.function, self.schema)


@dataclass(frozen=True)
class OfBatchPair:
    """Calls a function for every key of two inputs that were put together."""

    spreads: tuple[Spread, Spread]
    form: Form
    function: Callable[..., Any]
    schema: StructType

    def __call__(self, rows: DataFrame) -> DataFrame:
        left, right = map(BalancedBatch, apart(rows), self.spreads)
        return BatchPair(left, right).call(self.form, self.function, self.schema)


def together(left: DataFrame, right: DataFrame) -> DataFrame:
    """Put two inputs into one stream, which `OfBatchPair` takes apart."""
    return _as(left, LEFT, RIGHT, right).unionAll(_as(right, RIGHT, LEFT, left))


def apart(rows: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return the two inputs as they were."""
    left, right = (rows.where(sql.col(SIDE) == side).select(f"{side}.*") for side in (LEFT, RIGHT))
    return left, right


def _as(rows: DataFrame, side: str, other: str, others: DataFrame) -> DataFrame:
    structs = {side: sql.struct("*"), other: sql.lit(None).cast(others.schema)}
    return rows.select(sql.lit(side).alias(SIDE), *(structs[name].alias(name) for name in (LEFT, RIGHT)))
