"""Contenders on Spark, several side by side: while channels wait, cores are free for others."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.bench.skew.contenders import PKG, ROUND_ROBIN, SPARKS_HASH, Contender
from unskew.bench.skew.delayed_count import DelayedCount, Kind
from unskew.bench.skew.delayed_join import DelayedJoin
from unskew.bench.skew.measures import Measured
from unskew.bench.skew.streams import CHANNELS, Stream, shifting
from unskew.bench.streams import discard
from unskew.operators import Operator
from unskew.spark import session
from unskew.spark.local_session import SHORT_RUN

ATTEMPTS = 3
SALTS = 10
WITHIN = "20 seconds"


@dataclass(frozen=True)
class Setup:
    """How a race is run.

    Parameters
    ----------
    channels
        Channels of every contender.
    work_seconds
        What a batch takes on perfectly even channels, but for the fixed cost of a batch.
    kind
        Whether channels wait or compute.
    lanes
        Contenders that run at the same time.
    master
        Spark's master; by default so many local threads that no task ever waits for one.
    short
        Whether the whole race takes a few minutes, so that compiling thoroughly does not pay.
    resize_to, resize_at
        Another number of channels, asked for after that measured batch.
    """

    channels: int = CHANNELS
    work_seconds: float = 3.0
    kind: Kind = "wait"
    lanes: int = 3
    master: str | None = None
    short: bool = False
    resize_to: int | None = None
    resize_at: int = 0

    def seconds_per_tuple(self, stream: Stream) -> float:
        """Return what a tuple takes."""
        return self.work_seconds * self.channels / stream.rows

    @property
    def threads(self) -> str:
        """Spark's master, spelled out."""
        return self.master or f"local[{self.channels * self.lanes + 2},{ATTEMPTS}]"

    @contextmanager
    def spark(self) -> Iterator[SparkSession]:
        """Run a session that ends with the race."""
        config = {"spark.sql.streaming.numRecentProgressUpdates": "1000", **(SHORT_RUN if self.short else {})}
        spark = session(self.threads, config)
        try:
            yield spark
        finally:
            spark.stop()


class Runs:
    """Runs that have ended, one file each, so that a race goes on where it was broken off.

    Parameters
    ----------
    folder
        Where they are kept; None keeps nothing.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder

    def have(self, stream: Stream, contenders: Iterable[Contender], setup: Setup) -> bool:
        """Tell whether all of them have run."""
        return all(self.get(stream, contender, setup) is not None for contender in contenders)

    def get(self, stream: Stream, contender: Contender, setup: Setup) -> Measured | None:
        """Return what was measured, if it was."""
        path = self._path(stream, contender, setup)
        return Measured(**json.loads(path.read_text())["measured"]) if path and path.exists() else None

    def put(self, stream: Stream, contender: Contender, setup: Setup, measured: Measured) -> None:
        """Keep what was measured."""
        path = self._path(stream, contender, setup)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            entry = {"stream": stream.name, "contender": contender.name, "measured": asdict(measured)}
            path.write_text(json.dumps(entry, indent=1) + "\n")

    def _path(self, stream: Stream, contender: Contender, setup: Setup) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{sha256(repr((stream, contender, setup)).encode()).hexdigest()[:16]}.json"


def race(
    spark: SparkSession | None, stream: Stream, contenders: Sequence[Contender], setup: Setup, runs: Runs
) -> dict[str, Measured]:
    """Run every contender over the same files; those that have run already are taken from `runs`, without Spark.

    All lanes are busy until the last contender has ended, so that nobody has more of the cores than others had.
    """
    known = {each.name: runs.get(stream, each, setup) for each in contenders}
    missing = [each for each in contenders if known[each.name] is None]
    if missing:
        assert spark is not None, "only what has run already needs no session"
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
            stream.write(Path(home))
            track = _Track(spark, Path(home), stream, setup, runs, missing)
            with ThreadPoolExecutor(setup.lanes) as lanes:
                list(lanes.map(lambda _: track.run_lane(), range(setup.lanes)))
            known |= track.results
    return {name: measured for name, measured in known.items() if measured is not None}


class _Track:
    """The contenders of a race that wait for a free lane, and what the others have done."""

    def __init__(
        self, spark: SparkSession, files: Path, stream: Stream, setup: Setup, runs: Runs, contenders: list[Contender]
    ) -> None:
        self.spark, self.files, self.stream, self.setup, self.runs = spark, files, stream, setup, runs
        self.waiting, self.left = deque(contenders), len(contenders)
        self.results: dict[str, Measured] = {}
        self.lock = threading.Lock()

    def run_lane(self) -> None:
        """Run contenders while there are any, then one that nobody measures until all have ended."""
        while (contender := self._next()) is not None:
            try:
                self._measure(contender)
            finally:
                with self.lock:
                    self.left -= 1
        while self.left:
            self._keep_busy()

    def _next(self) -> Contender | None:
        with self.lock:
            return self.waiting.popleft() if self.waiting else None

    def _measure(self, contender: Contender) -> None:
        for attempts_left in reversed(range(ATTEMPTS)):
            try:
                with self._started(contender) as query:
                    query.awaitTermination()
                    measured = Measured.of(query, self.stream.warm_up)
            except StreamingQueryException:  # on a busy machine Python may be too slow for Spark to wait for it
                if not attempts_left:
                    raise
            else:
                self.results[contender.name] = measured
                self.runs.put(self.stream, contender, self.setup, measured)
                return

    def _keep_busy(self) -> None:
        with self._started(ROUND_ROBIN) as query:
            while self.left and query.isActive:
                time.sleep(0.5)
            query.stop()

    @contextmanager
    def _started(self, contender: Contender) -> Iterator[Any]:
        with tempfile.TemporaryDirectory(prefix="unskew-bench-", ignore_cleanup_errors=True) as checkpoint:
            with self.lock:  # a start changes settings of the session for a moment
                events = self.stream.read(self.spark, self.files)
                query = start(events, checkpoint, self.stream, contender, self.setup)
            yield query


def warm_up(spark: SparkSession, setup: Setup) -> None:
    """Run a few batches that nobody measures, so that the first contender does not pay for Java's compiler."""
    stream = replace(shifting(1.0, epochs=1, hold=5), rows=20_000, warm_up=0)
    race(spark, stream, (SPARKS_HASH, PKG), replace(setup, work_seconds=0.0), Runs())


def start(events: DataFrame, checkpoint: str, stream: Stream, contender: Contender, setup: Setup) -> Any:
    """Start one contender on all files there are."""
    key, sink = ["key"], discard
    if contender.salted:
        events = events.withColumn("salt", sql.pmod(sql.col("sequence"), sql.lit(SALTS)))
        key, sink = ["key", "salt"], _second_phase
    sizes: dict[str, Any] = {} if setup.resize_to is None else {"max_channels": max(setup.channels, setup.resize_to)}
    balanced = unskew.balance(events, key, channels=setup.channels, **sizes, **contender.options)
    query: Any = None

    def sink_and_resize(rows: DataFrame, batch_id: int) -> None:
        sink(rows, batch_id)
        if setup.resize_to is not None and batch_id == stream.warm_up + setup.resize_at and query is not None:
            query.resize(setup.resize_to)

    writer = balanced.apply(_operator(stream, contender, setup)).writeStream
    writer = writer.option("checkpointLocation", checkpoint).foreachBatch(sink_and_resize)
    query = writer.trigger(availableNow=True).start()
    return query


def _operator(stream: Stream, contender: Contender, setup: Setup) -> Operator:
    per_tuple = setup.seconds_per_tuple(stream)
    even = stream.rows / setup.channels if contender.even else None
    if stream.work == "join":
        return DelayedJoin(per_tuple, WITHIN, even)
    return DelayedCount(per_tuple, "worker" if contender.scheme else "owner", even, setup.kind)


def _second_phase(rows: DataFrame, batch_id: int) -> None:
    """Add up the salts of each key, as people do who salt by hand."""
    discard(rows.groupBy("key").agg(sql.sum("n").alias("n")), batch_id)
