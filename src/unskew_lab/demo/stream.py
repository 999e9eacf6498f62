"""The two streaming queries of the race, as one iterator over their batches."""

from __future__ import annotations

import math
import os
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from unskew.errors import SessionError
from unskew.hashing import hash_keys
from unskew.spark.balance import balance
from unskew.spark.local_session import SHORT_RUN, session
from unskew.spark.query import BalancedQuery
from unskew.spark.trial import is_running
from unskew.testing import write_batches
from unskew.workloads import workload
from unskew_lab.bench.streams import NATIVE_STATE
from unskew_lab.bench.streams import settings as changed
from unskew_lab.demo.batch import Batch, HotKey
from unskew_lab.demo.operator import OUTPUT, STATE, costly_count
from unskew_lab.demo.race import NAMES, RACERS, Racer
from unskew_lab.demo.settings import Settings

HOT_KEYS = 5
STOP_SECONDS = 10

# how often a query that has no rows looks for them; Spark's 10 ms would take cores from the other one
QUIET = {"spark.sql.streaming.pollingDelay": "100ms"}

Query = StreamingQuery | BalancedQuery


@dataclass(frozen=True)
class Course:
    """What the race runs on: its batches as they end, and the counts that a batch job finds in the same rows."""

    batches: Iterator[tuple[Racer, Batch]]
    recount: Callable[[int], dict[str, int]]
    checkpoint: Path  # of the balanced query, while the race lasts


@contextmanager
def racing(settings: Settings) -> Iterator[Course]:
    """Run both queries by turns and give their batches as they end; leaving stops them, and the session if it is ours.

    While a batch of one racer runs, up to its commit, the other has no rows: neither takes cores from the other.
    Spark's hash is native Spark with its own state, not unskew without a plan.
    """
    ours = not is_running()
    spark = session(f"local[{settings.channels},4]", SHORT_RUN) if ours else session()
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # pyspark's own would cancel all jobs, with an outcry
    with ExitStack() as stack:
        if ours:
            stack.callback(spark.stop)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="unskew-demo-", ignore_cleanup_errors=True))
        data = Path(folder) / "data"
        write_rows(settings, data)
        lanes = [Lane(racer, settings, data, Path(folder) / racer) for racer in RACERS]
        stack.callback(_stop, spark, lanes)
        batches = _batches(spark, lanes, settings)
        yield Course(batches, partial(recount, spark, data), lanes[RACERS.index("unskew")].checkpoint)


class Lane:
    """One racer: its query, which runs a batch whenever it is given the next file, and waits for it otherwise."""

    def __init__(self, racer: Racer, settings: Settings, data: Path, home: Path) -> None:
        self.racer, self.query = racer, cast("Query | None", None)
        self._settings, self._data = settings, data
        self._inbox, self.checkpoint = home / "inbox", home / "checkpoint"
        self._inbox.mkdir(parents=True)
        self._ended: queue.SimpleQueue[tuple[int, pa.Table]] = queue.SimpleQueue()
        self._moves = 0

    def go(self, spark: SparkSession, number: int) -> None:
        """Give the query the rows of a batch; the first time, start it."""
        file = f"{number:05d}.parquet"
        os.link(self._data / file, self._inbox / file)
        if self.query is None:
            self.query = self._start(spark)

    def stop(self) -> None:
        """Stop the query between two batches; a batch that takes too long is cancelled.

        Cancelling is the last resort, because Spark prints a long complaint if a Python sink is at work.
        """
        if self.query is not None:
            patience_ends = time.monotonic() + STOP_SECONDS
            while self._is_busy(self.query) and time.monotonic() < patience_ends:
                time.sleep(0.05)
            self.query.stop()

    @staticmethod
    def _is_busy(query: Query) -> bool:
        return bool(query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"])

    def _start(self, spark: SparkSession) -> Query:
        rows, channels = events(spark, self._inbox), self._settings.channels
        count = costly_count(self._settings.microseconds_per_row / 1e6)
        grouped: Any = rows.groupBy("key") if self.racer == "hash" else balance(rows, "key", channels=channels)
        with changed(spark, {**NATIVE_STATE, **QUIET, "spark.sql.shuffle.partitions": str(channels)}):
            query: Query = (
                grouped.applyInPandasWithState(count, OUTPUT, STATE, "update", "NoTimeout")
                .writeStream.outputMode("update")
                .option("checkpointLocation", str(self.checkpoint))
                .foreachBatch(lambda rows, number: self._ended.put((number, rows.toArrow())))
                .start()
            )
        return query

    def next_batch(self, deadline: float) -> Batch | None:
        """Wait for the batch under way; return None when the time is up.

        Waits in Python, not in Java, so that Ctrl-C is answered at once.
        """
        while time.monotonic() < deadline:
            try:
                number, output = self._ended.get(timeout=0.5)
            except queue.Empty:
                self._check()
            else:
                return self._batch(number, output)
        return None

    def _batch(self, number: int, output: pa.Table) -> Batch:
        seconds, channels = self._seconds(number), self._settings.channels
        if not isinstance(self.query, BalancedQuery):
            return _batch(number, seconds, output.rename_columns({"partition": "channel"}), channels)
        [figures] = [each for each in self.query.figures if each.batch_id == number]
        self._moves += figures.moved_keys + figures.moved_slots
        owners = self.query.routing_table.lookup(hash_keys(output, "key"))  # of this batch: none has begun since
        batch = _batch(number, seconds, output.append_column("channel", pa.array(owners)), channels)
        return replace(
            batch, moves=self._moves, hash_imbalance=figures.hash_imbalance, hash_seconds=figures.hash_seconds
        )

    def _seconds(self, number: int) -> float:
        """Return what a batch took, after its commit: Spark tells right afterwards."""
        assert self.query is not None
        while True:
            for progress in self.query.recentProgress:
                if progress.batchId == number and progress.numInputRows:
                    return progress.durationMs["triggerExecution"] / 1e3
            self._check()
            time.sleep(0.02)

    def _check(self) -> None:
        if self.query is not None and not self.query.isActive and self._ended.empty():
            problem = self.query.exception()
            reason = str(problem).partition("\n")[0] if problem else None
            raise SessionError("the streaming query ended early", where=NAMES[self.racer], got=reason)


def _batches(spark: SparkSession, lanes: Sequence[Lane], settings: Settings) -> Iterator[tuple[Racer, Batch]]:
    deadline = math.inf
    for number in range(settings.batches):
        for lane in lanes:
            lane.go(spark, number)
            batch = lane.next_batch(deadline)
            if batch is None:
                return
            yield lane.racer, batch
        if number == 0:
            deadline = time.monotonic() + settings.most_seconds


def write_rows(settings: Settings, folder: Path) -> None:
    """Write the stream, one file per batch: users by Zipf's law, other ones being hot after every few batches."""
    stream = workload(
        "key-shift",
        base="zipf",
        exponent=settings.exponent,
        keys=settings.keys,
        seed=settings.seed,
        shift=settings.shift,
        interval_seconds=1,
        every_seconds=settings.batches_per_shift,
    )
    drawn = (stream.keys(number, settings.rows) for number in range(settings.batches))
    write_batches(folder, (pa.table({"key": np.char.add("user-", keys.astype(str))}) for keys in drawn))


def events(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the files as a stream, one per batch."""
    return spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(str(folder))


def recount(spark: SparkSession, folder: Path, batches: int) -> dict[str, int]:
    """Count the rows of the first so many batches once more, as a plain batch job without state."""
    files = [str(file) for file in sorted(folder.glob("*.parquet"))[:batches]]
    counted = spark.read.schema("key string").parquet(*files).groupBy("key").count().toArrow()
    return dict(zip(counted["key"].to_pylist(), counted["count"].to_pylist(), strict=True))


def _batch(number: int, seconds: float, output: pa.Table, channels: int) -> Batch:
    frame = output.to_pandas()
    by_channel = frame.groupby("channel")[["rows", "seconds"]].sum().reindex(range(channels), fill_value=0)
    hottest = frame.nlargest(HOT_KEYS, "rows")[["key", "rows", "channel", "total"]]
    return Batch(
        number=number,
        seconds=seconds,
        channel_rows=tuple(by_channel["rows"].astype(int).tolist()),
        channel_seconds=tuple(by_channel["seconds"].tolist()),
        hot_keys=tuple(HotKey(*row) for row in hottest.to_numpy(dtype=object).tolist()),
        totals=dict(zip(frame["key"].tolist(), frame["total"].tolist(), strict=True)),
    )


def _stop(spark: SparkSession, lanes: Sequence[Lane]) -> None:
    """Stop the queries and keep it quiet: what they leave behind is thrown away together with their checkpoints."""
    spark.sparkContext.setLogLevel("OFF")
    for lane in lanes:
        lane.stop()
    spark.sparkContext.setLogLevel("ERROR")
