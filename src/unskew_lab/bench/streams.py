"""Streaming queries as contenders: the same files through each of them, batch by batch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unskew.spark import session
from unskew.testing import write_batches
from unskew_lab.bench.lane import Begin, Then
from unskew_lab.bench.zipf import zipf_ranks

SCHEMA = "key string, value double"
PLACES_SHIFTED = 37

# settings of a session whose native queries keep their state in RocksDB; unskew has no use for them
NATIVE_STATE = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false",  # a look-up per write otherwise
}

Sink = Callable[[DataFrame, int], None]  # takes the rows of a batch and its number
# starts a query on a stream with a checkpoint and returns it; the query must end by itself
Start = Callable[[DataFrame, str], Any]
StartWithSink = Callable[[DataFrame, str, Sink], Any]


@contextmanager
def temporary_session(master: str, config: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Run a session in which native queries keep their state in RocksDB, and stop it in the end."""
    spark = session(master, {**NATIVE_STATE, **(config or {})})
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder, and delete it in the end; what cannot be deleted stays."""
    with tempfile.TemporaryDirectory(prefix="unskew-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def settings(spark: SparkSession, changed: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session for a while. A query keeps those that it was started with."""
    before = {name: spark.conf.get(name, None) for name in changed}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, earlier in before.items():
            spark.conf.unset(name) if earlier is None else spark.conf.set(name, earlier)


def write_files(
    folder: Path,
    batches: int,
    rows: int,
    keys: int,
    exponent: float = 1.1,
    seed: int = 0,
    change_every: int | None = None,
) -> None:
    """Write one Parquet file per batch: string keys with Zipf frequencies and a whole number as value.

    With `change_every`, other keys become hot after every so many batches.
    """
    rng = np.random.default_rng(seed)
    names = np.array([f"k{i}" for i in rng.permutation(keys)])
    for batch in range(batches):
        drawn = zipf_ranks(rng, rows, keys, exponent)
        shifted = PLACES_SHIFTED * (batch // change_every) if change_every else 0
        write_file(folder, batch, pa.array(names[(drawn + shifted) % keys]), rng.integers(0, 100, rows).astype(float))


def write_file(folder: Path, batch: int, keys: pa.Array, values: np.ndarray[Any, Any]) -> None:
    """Write the file of one batch."""
    write_batches(folder, [pa.table({"key": keys, "value": values})], first=batch)


def read_files(spark: SparkSession, folder: Path, schema: str = SCHEMA) -> DataFrame:
    """Return the files as a stream, one per batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def discard(rows: DataFrame, batch_id: int) -> None:
    """Take a batch's rows in and forget them: a sink that costs nothing."""
    rows.write.format("noop").mode("overwrite").save()


def start(rows: Any, checkpoint: str, sink: Sink = discard, mode: str = "update") -> Any:
    """Start a query that ends after the last file."""
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
    return writer.foreachBatch(sink).trigger(availableNow=True).start()


def in_turn(events: DataFrame, checkpoint: Path, start: StartWithSink, sink: Sink = discard) -> Begin:
    """Return a query for a lane: its sink takes a batch's rows in and then stands still until its next turn."""

    def begin(then: Then) -> Any:
        def take_and_stand_still(rows: DataFrame, batch_id: int) -> None:
            sink(rows, batch_id)
            then(batch_id)

        return start(events, str(checkpoint), take_and_stand_still)

    return begin


def batch_seconds(
    spark: SparkSession,
    folder: Path,
    contenders: Mapping[str, Start],
    *,
    rounds: int,
    skipped: int,
    schema: str = SCHEMA,
) -> dict[str, list[float]]:
    """Run every contender over the files, in turns, and return the seconds of its batches.

    The first `skipped` of each run are not counted: start-up, compilation, growing state.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds):
        order = list(contenders.items())
        for name, start in order if number % 2 == 0 else reversed(order):
            with tempfile.TemporaryDirectory(prefix="unskew-bench-") as checkpoint:
                query = start(read_files(spark, folder, schema), checkpoint)
                query.awaitTermination()
                progress = [p for p in query.recentProgress if p.numInputRows]
                seconds[name] += [p.durationMs["triggerExecution"] / 1e3 for p in progress[skipped:]]
    return seconds
