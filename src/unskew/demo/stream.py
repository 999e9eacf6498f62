"""The streaming query of the demonstration, as an iterator over its batches."""

from __future__ import annotations

import math
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, concat, lit
from pyspark.sql.streaming.query import StreamingQuery

from unskew.demo.batch import Batch, HotKey
from unskew.demo.operator import OUTPUT, STATE, costly_count
from unskew.demo.settings import Settings
from unskew.errors import SessionError
from unskew.spark.session import SHORT_RUN, session
from unskew.spark.trial import is_running
from unskew.workloads.spark_source import register

HOT_KEYS = 5


@contextmanager
def running(settings: Settings) -> Iterator[Iterator[Batch]]:
    """Run the query and give its batches as they end; leaving stops the query, and the session if it is ours."""
    ours = not is_running()
    spark = session(f"local[{settings.channels},4]", SHORT_RUN) if ours else session()
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # pyspark's own would cancel all jobs, with an outcry
    partitions_before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    spark.conf.set("spark.sql.shuffle.partitions", str(settings.channels))
    try:
        with tempfile.TemporaryDirectory(prefix="unskew-demo-", ignore_cleanup_errors=True) as checkpoint:
            sink = Sink(settings.channels)
            query = _start(spark, settings, sink, checkpoint)
            try:
                yield _batches(query, settings, sink)
            finally:
                _stop(spark, query, sink)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions_before)
        if ours:
            spark.stop()


def _stop(spark: SparkSession, query: StreamingQuery, sink: Sink) -> None:
    """Stop without an outcry over the batch that is under way: it is thrown away together with its checkpoint."""
    if query.isActive:
        sink.stopping = True
        spark.sparkContext.setLogLevel("OFF")
        query.stop()
        spark.sparkContext.setLogLevel("ERROR")


class Sink:
    """Runs every batch, and keeps what is to be known of it in a queue."""

    def __init__(self, channels: int) -> None:
        self.done: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self.stopping = False
        self._channels = channels

    def __call__(self, output: DataFrame, number: int) -> None:
        """Be called by Spark for every batch."""
        start = time.perf_counter()
        try:
            frame = output.toArrow().to_pandas()  # this runs the batch
        except Exception:
            if self.stopping:  # cancelled on purpose, and nobody wants to hear of it
                return
            raise
        self.done.put(_batch(number, time.perf_counter() - start, frame, self._channels))


def _start(spark: SparkSession, settings: Settings, sink: Sink, checkpoint: str) -> StreamingQuery:
    count = costly_count(settings.microseconds_per_row / 1e6)
    return (
        events(spark, settings)
        .groupBy("key")
        .applyInPandasWithState(count, OUTPUT, STATE, "update", "NoTimeout")
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .foreachBatch(sink)
        .trigger(availableNow=True)
        .start()
    )


def events(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the stream: users by Zipf's law, and after every few batches other users are the hot ones."""
    register(spark)
    options: dict[str, str | float] = {
        "workload": "key-shift",
        "base": "zipf",
        "exponent": settings.exponent,
        "keys": settings.keys,
        "seed": settings.seed,
        "intervalSeconds": 1,
        "everySeconds": settings.batches_per_shift,
        "shift": settings.shift,
        "batches": settings.batches,
        "rowsPerBatch": settings.rows,
    }
    stream = spark.readStream.format("unskew").options(**options).load()
    return stream.select(concat(lit("user-"), col("key").cast("string")).alias("key"))


def _batch(number: int, seconds: float, output: pd.DataFrame, channels: int) -> Batch:
    by_channel = output.groupby("channel")[["rows", "seconds"]].sum().reindex(range(channels), fill_value=0)
    hottest = output.nlargest(HOT_KEYS, "rows")[["key", "rows", "channel", "seconds"]]
    return Batch(
        number=number,
        seconds=seconds,
        channel_rows=tuple(by_channel["rows"].astype(int).tolist()),
        channel_seconds=tuple(by_channel["seconds"].tolist()),
        hot_keys=tuple(HotKey(*row) for row in hottest.to_numpy(dtype=object).tolist()),
    )


def _batches(query: StreamingQuery, settings: Settings, sink: Sink) -> Iterator[Batch]:
    deadline = math.inf
    for number in range(settings.batches):
        batch = _next_batch(query, sink, deadline)
        if batch is None:
            return
        yield batch
        if number == 0:
            deadline = time.monotonic() + settings.most_seconds


def _next_batch(query: StreamingQuery, sink: Sink, deadline: float) -> Batch | None:
    """Wait in Python, not in Java, so that Ctrl-C is answered at once; return None when the time is up."""
    while time.monotonic() < deadline:
        try:
            return sink.done.get(timeout=0.5)
        except queue.Empty:
            if not query.isActive and sink.done.empty():
                problem = query.exception()
                reason = str(problem).partition("\n")[0] if problem else None
                raise SessionError("the streaming query ended early", got=reason) from None
    return None
