"""The tasks of a batch on Spark: one or two jobs inside ``foreachBatch``, public DataFrame API only."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, BinaryType, MapType, StringType, StructType

from unskew.errors import SessionError
from unskew.operators.presum import ORDER_COLUMN, Presum, quoted
from unskew.runtime.jobs import Whole, Work, no_packs
from unskew.runtime.prepare import Prepare
from unskew.runtime.route import Route
from unskew.runtime.wire import COUNT_COLUMN, LAST, PACKS, PARCELS, PLACE_COLUMN, RESULTS
from unskew.spark.anchors import Anchors, arrived
from unskew.spark.hadoop import contents
from unskew.spark.settings import session_settings
from unskew.versions.arrow import from_arrow_schema
from unskew.versions.shuffle import repartition_by_id

Batches = Iterator[pa.RecordBatch]
Initial = Callable[[SparkSession, Work], DataFrame]  # gives state to begin with, as parcels

# Let Spark cut the rows for tasks by their number alone.
ROWS_UNCUT = {"spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1)}

# what Spark says when it gives up a job whose repeated stage had other rows
CAME_OUT_DIFFERENTLY = ("indeterminate", "cannot rollback", "rollback failed")
TRIES = 4


@dataclass(frozen=True)
class Numbered:
    """A function for ``mapInArrow`` that is told the number of its partition."""

    function: Callable[[int, Batches], Batches]

    def __call__(self, batches: Batches) -> Batches:
        context = TaskContext.get()
        if context is None:
            raise SessionError("this function only works inside a Spark task")
        yield from self.function(context.partitionId(), batches)


def _prepared_and_routed(prepare: Prepare, route: Route, source: int, batches: Batches) -> Batches:
    return route(prepare(source, batches))


def _without_rows(route: Route, batches: Batches) -> Batches:
    """Carry orders, and state that moves, where there are no rows to carry them."""
    return route(iter([no_packs()]))


class SparkJobs:
    """The rows of one micro-batch; see `unskew.runtime.jobs.Jobs`."""

    def __init__(
        self,
        rows: DataFrame,
        key: tuple[str, ...],  # the columns that Spark's own hash would place rows by
        cores: int,  # tasks that can run at once
        initial: Initial | None = None,
        anchors: Anchors | None = None,  # holds tasks to their homes; None on a single machine
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
        with session_settings(self._rows.sparkSession, rows_cut(self._rows.schema) | self._shuffle(prepare)):
            self._packs = self._source(prepare).mapInArrow(Numbered(prepare), from_arrow_schema(PACKS)).persist()
            counts = self._packs.where(sql.col("sequence") == LAST).select("counts").toArrow()
        return [blob.as_py() for blob in counts.column("counts")]

    def work(self, work: Work) -> pa.Table:
        assert self._packs is not None
        return self._run(self._packs.mapInArrow(work.route, from_arrow_schema(PARCELS)), work)

    def direct(self, prepare: Prepare, work: Work) -> pa.Table:
        function = Numbered(partial(_prepared_and_routed, prepare, work.route))
        routed = self._source(prepare).mapInArrow(function, from_arrow_schema(PARCELS))
        with session_settings(self._rows.sparkSession, self._shuffle(prepare)):
            results = self._run(routed, work)
        return results if results.num_rows else self.errands(work)  # a frame without partitions runs no task

    def whole(self, whole: Whole) -> pa.Table:
        rows = self._source(whole.prepare, self._rows.coalesce(1))
        with session_settings(self._rows.sparkSession, rows_cut(self._rows.schema)):
            return rows.mapInArrow(Numbered(whole), from_arrow_schema(RESULTS)).toArrow()

    def errands(self, work: Work) -> pa.Table:
        one = self._rows.sparkSession.range(0, 1, 1, 1)
        return self._run(one.mapInArrow(partial(_without_rows, work.route), from_arrow_schema(PARCELS)), work)

    def drain(self) -> None:
        """Read the rows and drop them: Spark learns the next watermark from rows that were read."""
        self._rows.write.format("noop").mode("overwrite").save()

    def close(self) -> None:
        """Let go of the packs, and of homes in a while."""
        if self._packs is not None:
            with contextlib.suppress(Exception):  # a query that is being stopped may no longer listen
                self._packs.unpersist()
            self._packs = None
        if self._anchors is not None:
            self._anchors.rest()

    def _source(self, prepare: Prepare, rows: DataFrame | None = None) -> DataFrame:
        """Return the rows as `prepare` expects them: combined by Spark, or with Spark's hash of their key."""
        rows = self._rows if rows is None else rows
        if prepare.presum is not None:
            return presummed(rows, prepare.operator.key, prepare.presum)
        key = ", ".join(map(quoted, self._key))
        return rows.selectExpr("*", f"hash({key}) AS {PLACE_COLUMN}")  # one call to Java, not a dozen

    def _shuffle(self, prepare: Prepare) -> dict[str, str]:
        """Return settings that give Spark's own shuffle as many parts as tasks can run at once."""
        return {} if prepare.presum is None else {"spark.sql.shuffle.partitions": str(self.cores)}

    def _run(self, parcels: DataFrame, work: Work) -> pa.Table:
        if self._initial is not None:
            parcels = parcels.unionAll(self._initial(self._rows.sparkSession, work))
        if work.give is not None:
            given = contents(self._rows.sparkSession, work.channels.site.files, work.give.pieces)
            parcels = parcels.unionAll(given.mapInArrow(work.give, from_arrow_schema(PARCELS)))
        if work.worker is not None:
            parcels = _by_task(parcels, work.tasks).mapInArrow(work.worker, from_arrow_schema(PARCELS))
        if work.homes and self._anchors is not None:
            function = partial(arrived, work.channels)
            return collected(self._anchors.bring(parcels).mapInArrow(function, from_arrow_schema(RESULTS)))
        return collected(_by_task(parcels, work.tasks).mapInArrow(work.channels, from_arrow_schema(RESULTS)))


def rows_cut(schema: StructType) -> dict[str, str]:
    """Return settings that say how Spark cuts rows into Arrow batches for a task.

    Texts may be long, and 10,000 long ones would not fit into the JVM's direct memory: Spark cuts such rows by their
    bytes, as it does by default. It looks at the size of the Arrow batch at every row for that. This is wasted on rows
    of a fixed width, and takes ever longer with nested columns, so there it cuts by number alone.
    """
    kinds = [field.dataType for field in schema]
    nested = any(isinstance(kind, ArrayType | MapType | StructType) for kind in kinds)
    long = any(isinstance(kind, StringType | BinaryType) for kind in kinds)
    return {} if long and not nested else ROWS_UNCUT


def collected(results: DataFrame) -> pa.Table:
    """Run a job; run it again if Spark gave up because a repeated stage had a different result.

    When an executor is lost, a shuffle may bring rows in another order, and sums of floats differ in their last digits.
    Nothing of a job counts before it is recorded, so all of it may run again.
    """
    for _ in range(TRIES - 1):
        try:
            return results.toArrow()
        except Exception as error:
            if not any(word in str(error) for word in CAME_OUT_DIFFERENTLY):
                raise
    return results.toArrow()


def presummed(rows: DataFrame, key: tuple[str, ...], presum: Presum) -> DataFrame:
    """Return one row per group: the key, what else rows are grouped by, partial states, and the number of rows."""
    groups = {ORDER_COLUMN: "monotonically_increasing_id()"} if presum.ordered else {}
    groups |= presum.groups
    if groups:
        rows = rows.selectExpr("*", *(f"{text} AS {name}" for name, text in groups.items()))
    states = presum.columns | {COUNT_COLUMN: "count(*)"}
    return rows.groupBy(*map(quoted, key), *presum.groups).agg(
        *(sql.expr(f"{text} AS {name}") for name, text in states.items())
    )


def _by_task(parcels: DataFrame, tasks: int) -> DataFrame:
    # a shuffle even to a single task: `coalesce` would run all partitions in one, and they would lose their numbers
    return repartition_by_id(parcels, tasks, "task")
