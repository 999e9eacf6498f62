"""The two streaming queries of the race, as one iterator over their batches."""

from __future__ import annotations

import math
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
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from unskew.demo.batch import Batch, HotKey
from unskew.demo.operator import OUTPUT, STATE, costly_count
from unskew.demo.race import NAMES, RACERS, Racer
from unskew.demo.settings import Settings
from unskew.errors import SessionError
from unskew.spark.balance import balance
from unskew.spark.local_session import SHORT_RUN, session
from unskew.spark.query import BalancedQuery
from unskew.spark.trial import is_running
from unskew.testing import write_batches
from unskew.workloads import workload

HOT_KEYS = 5
STOP_SECONDS = 10

Query = StreamingQuery | BalancedQuery


@dataclass(frozen=True)
class Course:
    """What the race runs on: its batches as they end, and the counts that a batch job finds in the same rows."""

    batches: Iterator[tuple[Racer, Batch]]
    recount: Callable[[int], dict[str, int]]


@contextmanager
def racing(settings: Settings) -> Iterator[Course]:
    """Run both queries by turns and give their batches as they end; leaving stops them, and the session if it is ours.

    While a batch of one racer runs, from its planning to the end of its sink, the other stands still, so that neither
    takes cores from the other.
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
        yield Course(_batches(spark, lanes, settings), partial(recount, spark, data))


class Stopped(Exception):  # noqa: N818
    """Ends a query from within its sink."""


class Lane:
    """One racer: its query, which stands still at the end of every batch until it is told to go on."""

    def __init__(self, racer: Racer, settings: Settings, data: Path, checkpoint: Path) -> None:
        self.racer, self._stopping = racer, False
        self.query: Query | None = None
        self._settings, self._data, self._checkpoint = settings, data, checkpoint
        self._ended: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self._turn = threading.Semaphore(0)
        self._turn_began = 0.0

    def go(self, spark: SparkSession) -> None:
        """Run the next batch: start the query, or let it go on."""
        if self.query is None:
            self._turn_began = time.perf_counter()
            with _shuffle_partitions(spark, self._settings.channels):
                self.query = self._start(spark)
        else:
            self._turn.release()

    def stop(self) -> None:
        """Stop the query where one batch ends and the next begins; a batch that takes too long is cancelled.

        Cancelling is the last resort, because Spark prints a long complaint if a Python sink is at work.
        """
        self._stopping = True
        self._turn.release()
        if self.query is not None:
            patience_ends = time.monotonic() + STOP_SECONDS
            while self.query.isActive and time.monotonic() < patience_ends:
                time.sleep(0.05)
            self.query.stop()

    def _start(self, spark: SparkSession) -> Query:
        rows, channels = events(spark, self._data), self._settings.channels
        count = costly_count(self._settings.microseconds_per_row / 1e6)
        grouped: Any = rows.groupBy("key") if self.racer == "hash" else balance(rows, "key", channels=channels)
        query: Query = (
            grouped.applyInPandasWithState(count, OUTPUT, STATE, "update", "NoTimeout")
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(self._checkpoint))
            .foreachBatch(self._take)
            .trigger(availableNow=True)
            .start()
        )
        return query

    def _take(self, output: DataFrame, number: int) -> None:
        """Take in a batch, then wait for the next turn; called by Spark.

        What follows a batch, its commit and unskew's planning, thus falls into the time of the next one.
        """
        self._check_whether_to_stop()
        frame = output.toArrow().to_pandas()
        self._ended.put(_batch(number, time.perf_counter() - self._turn_began, frame, self._settings.channels))
        self._turn.acquire()
        self._check_whether_to_stop()
        self._turn_began = time.perf_counter()

    def _check_whether_to_stop(self) -> None:
        if self._stopping:
            raise Stopped

    def next_batch(self, deadline: float) -> Batch | None:
        """Wait in Python, not in Java, so that Ctrl-C is answered at once; return None when the time is up."""
        while time.monotonic() < deadline:
            try:
                batch = self._ended.get(timeout=0.5)
            except queue.Empty:
                self._check()
            else:
                return replace(batch, moves=self._moves(batch.number))
        return None

    def _moves(self, number: int) -> int:
        """Return how many keys and slots had changed their channel at the end of a batch."""
        moves = self.query.moves if isinstance(self.query, BalancedQuery) else []
        return sum(batch_id <= number for batch_id, _ in moves)

    def _check(self) -> None:
        if self.query is not None and not self.query.isActive and self._ended.empty():
            problem = self.query.exception()
            reason = str(problem).partition("\n")[0] if problem else None
            raise SessionError("the streaming query ended early", where=NAMES[self.racer], got=reason)


def _batches(spark: SparkSession, lanes: Sequence[Lane], settings: Settings) -> Iterator[tuple[Racer, Batch]]:
    deadline = math.inf
    for number in range(settings.batches):
        for lane in lanes:
            lane.go(spark)
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


def _batch(number: int, seconds: float, output: pd.DataFrame, channels: int) -> Batch:
    by_channel = output.groupby("channel")[["rows", "seconds"]].sum().reindex(range(channels), fill_value=0)
    hottest = output.nlargest(HOT_KEYS, "rows")[["key", "rows", "channel", "total"]]
    return Batch(
        number=number,
        seconds=seconds,
        channel_rows=tuple(by_channel["rows"].astype(int).tolist()),
        channel_seconds=tuple(by_channel["seconds"].tolist()),
        hot_keys=tuple(HotKey(*row) for row in hottest.to_numpy(dtype=object).tolist()),
        totals=dict(zip(output["key"].tolist(), output["total"].tolist(), strict=True)),
    )


def _stop(spark: SparkSession, lanes: Sequence[Lane]) -> None:
    """Stop the queries and keep it quiet: what they leave behind is thrown away together with their checkpoints."""
    spark.sparkContext.setLogLevel("OFF")
    for lane in lanes:
        lane.stop()
    spark.sparkContext.setLogLevel("ERROR")


@contextmanager
def _shuffle_partitions(spark: SparkSession, partitions: int) -> Iterator[None]:
    """Set the partitions that Spark shuffles into, and so those of its state, while a query starts."""
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    try:
        yield
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
