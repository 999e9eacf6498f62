"""Homes for tasks: Spark's scheduler holds tasks to the partitions of a small cached frame, one per core."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from math import ceil
from threading import Timer
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.runtime.site import local_place
from unskew.spark.plans import session_cores

Batches = Iterator[pa.RecordBatch]

TRIES = 3


def on_cluster(spark: SparkSession) -> bool:
    """Tell whether tasks may run in more than one process."""
    master = str(spark.conf.get("spark.master", "local"))
    return master != "local" and not master.startswith("local[")


class Anchors:
    """Keeps a frame with one row per home cached on the executors, and brings parcels to its partitions.

    Spark sends a task that joins a cached partition to where that partition lies, and waits for a free core there as
    long as ``spark.locality.wait`` says. Only time depends on it: a lost partition is made again elsewhere.

    New homes are chosen when the number of channels or of cores changes, and after `release`. Homes that nobody uses
    for `idle_seconds` are released, since cached partitions keep executors alive under dynamic allocation.
    """

    def __init__(self, idle_seconds: float = 60.0) -> None:
        self._idle_seconds = idle_seconds
        self._frame: DataFrame | None = None
        self._homes: tuple[str, ...] = ()
        self._made_for: tuple[int, int] | None = None
        self._timer: Timer | None = None

    def homes(self, spark: SparkSession, channels: int) -> tuple[str, ...]:
        """Return the place of each home, one per core but no more than channels; none if all are in one place."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wanted = channels, session_cores(spark)
        if wanted != self._made_for:
            for _ in range(TRIES):  # Spark spreads tasks evenly, but only over cores that are free at this moment
                self._homes = self._make(spark, min(wanted))
                crowds, homes = Counter(self._homes), len(self._homes)
                if homes == 1 or max(crowds.values()) <= ceil(homes / len(crowds)) < homes:
                    break
            else:
                if len(crowds) == 1:
                    self.release()
                    self._homes = ()
            self._made_for = wanted
        return self._homes

    def bring(self, parcels: DataFrame) -> DataFrame:
        """Bring parcels to their tasks' homes; `arrived` takes them in.

        Only a sort-merge join runs a task where its cached side is, and only if it streams that side. It would hold all
        matching rows of the other side in memory, so none may match: homes have numbers beyond those of tasks, which
        `repartitionById` sends to the same partitions.
        """
        assert self._frame is not None
        parcels = parcels.repartitionById(len(self._homes), sql.col("task"))
        return self._frame.hint("merge").join(parcels, "task", "full")

    def rest(self) -> None:
        """Release the homes if nobody asks for them for a while."""
        if self._made_for is not None and self._timer is None:
            self._timer = Timer(self._idle_seconds, self.release)
            self._timer.daemon = True
            self._timer.start()

    def release(self) -> None:
        self._made_for = None
        if self._frame is not None:
            with contextlib.suppress(Exception):  # a session that is being stopped may no longer listen
                self._frame.unpersist()

    def _make(self, spark: SparkSession, count: int) -> tuple[str, ...]:
        """Cache a new frame, and return where its partitions lie."""
        self.release()
        rows = spark.range(count, 2 * count, 1, count).select(sql.col("id").cast("int").alias("task"))
        marked = rows.withColumn("mark", sql.lit(uuid4().hex))  # equal frames would share one cache
        self._frame = marked.repartitionById(count, sql.col("task")).persist()
        seen = self._frame.mapInArrow(_look, "home int, place string").toArrow()
        return tuple(place for _, place in sorted(zip(*seen.to_pydict().values(), strict=True)))


def arrived(function: Callable[[Batches], Batches], batches: Batches) -> Batches:
    """Run a function on the parcels that `Anchors.bring` has brought, without the row of the home itself."""
    return function(batch.filter(batch.column("kind").is_valid()) for batch in batches)


def _look(batches: Batches) -> Batches:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"home": batch.column("task"), "place": [local_place()] * batch.num_rows})
