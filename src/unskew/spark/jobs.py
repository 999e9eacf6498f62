"""The tasks of a batch on Spark: one or two jobs inside ``foreachBatch``, public DataFrame API only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.pandas.types import from_arrow_schema

from unskew.errors import SessionError
from unskew.operators.presum import ORDER_COLUMN, Presum, quoted
from unskew.runtime.jobs import Whole, Work, no_packs
from unskew.runtime.prepare import Prepare
from unskew.runtime.wire import COUNT_COLUMN, LAST, PACKS, PARCELS, PLACE_COLUMN, RESULTS
from unskew.spark.anchors import Anchors, Arrived
from unskew.spark.hadoop import contents
from unskew.spark.settings import session_settings

Batches = Iterator[pa.RecordBatch]

ROWS_UNCUT = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}
"""Has Spark cut the rows that it hands to tasks by their number alone.

It would ask for the size of an Arrow batch at every row; with nested columns that takes longer the more rows there are.
Parcels are cut by bytes, as Spark does by default: they are large, and an Arrow array holds 2 GiB.
"""

CAME_OUT_DIFFERENTLY, TRIES = ("indeterminate", "cannot rollback", "rollback failed"), 4
"""What Spark says when it gives up a job whose repeated stage had other rows, and how often such a job is run."""


@dataclass(frozen=True)
class Numbered:
    """A function for ``mapInArrow`` that is told the number of its partition."""

    function: Callable[[int, Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        context = TaskContext.get()
        if context is None:
            raise SessionError("this function only works inside a Spark task")
        yield from self.function(context.partitionId(), batches)


@dataclass(frozen=True)
class Routed:
    """PREPARE and ROUTE in one task."""

    prepare: Prepare
    route: Callable[[Batches], Batches]

    def __call__(self, source: int, batches: Batches) -> Batches:
        yield from self.route(self.prepare(source, batches))


@dataclass(frozen=True, eq=False)
class Errands:
    """Orders, and state that moves, where there are no rows to carry them."""

    route: Callable[[Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        yield from self.route(iter([no_packs()]))


class SparkJobs:
    """The rows of one micro-batch; see `unskew.runtime.jobs.Jobs`.

    Parameters
    ----------
    rows
        The batch.
    key
        The columns that Spark's own hash would place rows by.
    cores
        Tasks that can run at once.
    initial
        Gives parcels with state to begin with, for the first batch of a query.
    anchors
        Holds tasks to their homes; None where there is only one machine.
    """

    def __init__(
        self,
        rows: DataFrame,
        key: tuple[str, ...],
        cores: int,
        initial: Callable[[Work], DataFrame] | None = None,
        anchors: Anchors | None = None,
    ) -> None:
        self._rows, self._key, self.cores, self._initial, self._anchors = rows, key, cores, initial, anchors
        self._packs: DataFrame | None = None
        self.presums = True

    def homes(self, channels: int) -> tuple[str, ...]:
        return () if self._anchors is None else self._anchors.homes(self._rows.sparkSession, channels)

    def leave_homes(self) -> None:
        if self._anchors is not None:
            self._anchors.release()

    def count(self, prepare: Prepare) -> list[bytes]:
        """Run job 1: prepare, and keep the packs on the executors."""
        with session_settings(self._rows.sparkSession, ROWS_UNCUT | self._shuffle(prepare)):
            self._packs = self._source(prepare).mapInArrow(Numbered(prepare), from_arrow_schema(PACKS)).persist()
            counts = self._packs.where(sql.col("sequence") == LAST).select("counts").toArrow()
        return [blob.as_py() for blob in counts.column("counts")]

    def work(self, work: Work) -> pa.Table:
        """Run job 2 on the packs."""
        assert self._packs is not None
        return self._run(self._packs.mapInArrow(work.route, from_arrow_schema(PARCELS)), work)

    def direct(self, prepare: Prepare, work: Work) -> pa.Table:
        routed = self._source(prepare).mapInArrow(Numbered(Routed(prepare, work.route)), from_arrow_schema(PARCELS))
        with session_settings(self._rows.sparkSession, self._shuffle(prepare)):
            results = self._run(routed, work)
        return results if results.num_rows else self.errands(work)  # a frame without partitions runs no task

    def whole(self, whole: Whole) -> pa.Table:
        rows = self._source(whole.prepare, self._rows.coalesce(1))
        with session_settings(self._rows.sparkSession, ROWS_UNCUT):
            return rows.mapInArrow(Numbered(whole), from_arrow_schema(RESULTS)).toArrow()

    def errands(self, work: Work) -> pa.Table:
        one = self._rows.sparkSession.range(0, 1, 1, 1)
        return self._run(one.mapInArrow(Errands(work.route), from_arrow_schema(PARCELS)), work)

    def drain(self) -> None:
        """Let the rows flow into nothing: Spark learns the next watermark from rows that flowed."""
        self._rows.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Let go of the packs, and of homes in a while; a query that is being stopped may no longer listen."""
        if self._packs is not None:
            with contextlib.suppress(Exception):
                self._packs.unpersist()
            self._packs = None
        if self._anchors is not None:
            self._anchors.rest()

    def _source(self, prepare: Prepare, rows: DataFrame | None = None) -> DataFrame:
        """Return the rows as `prepare` expects them: combined by Spark, or with Spark's own hash of their key."""
        rows = self._rows if rows is None else rows
        if prepare.presum is not None:
            return presummed(rows, prepare.operator.key, prepare.presum)
        if not self._key:
            return rows
        key = ", ".join(map(quoted, self._key))
        return rows.selectExpr("*", f"hash({key}) AS {PLACE_COLUMN}")  # one call to Java, not a dozen

    def _shuffle(self, prepare: Prepare) -> dict[str, str]:
        """Return the setting by which Spark's own shuffle has as many parts as tasks can run at once."""
        return {} if prepare.presum is None else {"spark.sql.shuffle.partitions": str(self.cores)}

    def _run(self, parcels: DataFrame, work: Work) -> pa.Table:
        if self._initial is not None:
            parcels = parcels.unionAll(self._initial(work))
        if work.give is not None:
            given = contents(self._rows.sparkSession, work.channels.site.files, work.give.pieces)
            parcels = parcels.unionAll(given.mapInArrow(work.give, from_arrow_schema(PARCELS)))
        if work.worker is not None:
            parcels = _by_task(parcels, work.tasks).mapInArrow(work.worker, from_arrow_schema(PARCELS))
        if work.homes and self._anchors is not None:
            brought = self._anchors.bring(parcels)
            return collected(brought.mapInArrow(Arrived(work.channels), from_arrow_schema(RESULTS)))
        return collected(_by_task(parcels, work.tasks).mapInArrow(work.channels, from_arrow_schema(RESULTS)))


def collected(results: DataFrame) -> pa.Table:
    """Run a job; run it again if Spark gave up because a stage came out differently when it was repeated.

    Sums of floats do, in their last digits, when an executor is lost after it has added up what a shuffle brought in
    another order. Nothing of the job counts before it is recorded, so the whole of it may run again.
    """
    for _ in range(TRIES - 1):
        try:
            return results.toArrow()
        except Exception as error:
            if not any(word in str(error) for word in CAME_OUT_DIFFERENTLY):
                raise
    return results.toArrow()


def presummed(rows: DataFrame, key: tuple[str, ...], presum: Presum) -> DataFrame:
    """Return one row per group: the key, what else rows are grouped by, partial states, and the rows they stand for."""
    groups = {ORDER_COLUMN: "monotonically_increasing_id()"} if presum.ordered else {}
    groups |= presum.groups
    if groups:
        rows = rows.selectExpr("*", *(f"{text} AS {name}" for name, text in groups.items()))
    states = presum.columns | {COUNT_COLUMN: "count(*)"}
    return rows.groupBy(*map(quoted, key), *presum.groups).agg(
        *(sql.expr(f"{text} AS {name}") for name, text in states.items())
    )


def _by_task(parcels: DataFrame, tasks: int) -> DataFrame:
    """Bring parcels to their tasks.

    A shuffle even to a single one: coalescing would run all partitions in one task, and they would lose their numbers.
    """
    return parcels.repartitionById(tasks, sql.col("task"))
