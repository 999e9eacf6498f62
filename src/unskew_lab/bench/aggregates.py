"""Aggregates beside Spark's own: running ones at every batch size, windows and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.testing import write_batches
from unskew_lab.bench.count_and_sum import balanced_sums, native_sums
from unskew_lab.bench.drop_in import NATIVE, OURS, native_over_ours
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.lane import Lane, by_turns
from unskew_lab.bench.streams import (
    SCHEMA,
    Sink,
    StartWithSink,
    in_turn,
    read_files,
    start,
    temporary_folder,
    temporary_session,
    write_file,
    write_files,
)
from unskew_lab.bench.zipf import zipf_ranks

TIMED_SCHEMA = "key string, value double, ts timestamp"
SECONDS_A_BATCH, DELAY = 60, "30 seconds"
WARM_UP = 3


@dataclass(frozen=True)
class Case:
    """One comparison of batches: their rows and keys, the partitions of both sides, and the ratio hoped for.

    With `held`, the first batch brings that many keys, and later ones draw evenly from them.
    """

    rows: int
    keys: int
    partitions: int
    target: float
    exponent: float = 1.1
    held: int = 0
    even_within: float | None = None

    @property
    def name(self) -> str:
        held = f", {self.held:,} keys held" if self.held else ""
        zipf = f", Zipf {self.exponent}" if self.even_within else ""
        return f"count and sum, {self.rows:,} rows{held}{zipf}, {self.partitions} partitions"

    def scaled(self, scale: float) -> Case:
        rows, held = int(self.rows * scale), int(self.held * scale)
        return Case(rows, self.keys, self.partitions, self.target, self.exponent, held, self.even_within)


RUNNING = (
    Case(20_000, 100_000, 2, 1.0),
    Case(20_000, 100_000, 8, 1.3),
    Case(20_000, 100_000, 200, 5.0),
    Case(500_000, 100_000, 2, 1.15),
    Case(4_000_000, 100_000, 2, 1.0),
    Case(500_000, 100_000, 8, 1.1, exponent=1.4, even_within=1.05),
    Case(1_000_000, 2_000_000, 2, 3.0, held=2_000_000),
)


QUICK_CASES = (RUNNING[0], RUNNING[1], RUNNING[3])
ROWS = (1_000, 10_000, 100_000, 1_000_000, 4_000_000)
HELD = (10_000, 100_000, 1_000_000, 10_000_000)
ROWS_GROW, HELD_GROWS = "growth with rows", "growth with keys held"


def running(spark: SparkSession, home: Path, case: Case, turns: int) -> list[Row]:
    """Compare count and sum per key with Spark's native aggregation of as many partitions."""
    files = home / "files"
    if case.held:
        _write_held(files, case, WARM_UP + turns)
    else:
        write_files(files, WARM_UP + turns, case.rows, case.keys, case.exponent)
    ours = partial(balanced_sums, channels=case.partitions)
    lanes = _compared(spark, files, home, case.partitions, SCHEMA, {NATIVE: native_sums, OURS: ours})
    rows = native_over_ours(case.name, lanes, WARM_UP, case.target)
    if case.even_within:
        imbalance = max(figures.imbalance for figures in lanes[OURS].query.figures)
        name = f"{case.name}: fullest channel over the mean, merged rows, worst batch"
        rows.append(Row(name, OURS, imbalance, "x", target=case.even_within, better="lower"))
    return rows


def windows(spark: SparkSession, home: Path, rows: int, turns: int) -> Iterator[Row]:
    """Compare windows that tumble and slide, in update mode, and sessions, which Spark puts out in append mode."""
    partitions = 2
    for number in range(WARM_UP + turns):
        _write_timed(home / "files", number, rows)
    spans: dict[str, tuple[str, Any, Callable[[Any], Any]]] = {
        "tumbling windows": ("update", sql.window("ts", "20 seconds"), lambda keyed: keyed.window("20 seconds")),
        "sliding windows": (
            "update",
            sql.window("ts", "30 seconds", "10 seconds"),
            lambda keyed: keyed.window("30 seconds", "10 seconds"),
        ),
        "sessions": ("append", sql.session_window("ts", "5 seconds"), lambda keyed: keyed.session_window("5 seconds")),
    }
    for name, (mode, window, grouped) in spans.items():
        starts: dict[str, StartWithSink] = {
            NATIVE: partial(_native_windows, window, mode),
            OURS: partial(_balanced_windows, grouped, mode, partitions),
        }
        lanes = _compared(spark, home / "files", home / name, partitions, TIMED_SCHEMA, starts)
        yield from native_over_ours(f"{name}, {rows:,} rows, {partitions} partitions", lanes, WARM_UP, target=1.0)


def growth(spark: SparkSession, home: Path, name: str, case: Case, turns: int) -> list[Row]:
    """Return the median seconds of a batch of one size, by contender."""
    rows = running(spark, home, case, turns)
    return [
        Row(name, row.contender, row.value, "s", better="lower", samples=row.samples) for row in rows if row.samples
    ]


class AggregatesBenchmark(Benchmark):
    """Count and sum per key beside Spark's own ``groupBy().agg()``, at every batch size; windows and sessions.

    Both read the same files by turns, have as many partitions, and write to a sink that discards. Native Spark keeps
    its state in RocksDB with changelogs. Keys are strings with Zipf frequencies unless said otherwise. A whole run also
    measures how a batch grows with its rows and with the keys held.
    """

    name: ClassVar[str] = "aggregates"
    summary: ClassVar[str] = "count and sum, windows and sessions beside Spark's own aggregation, small and large"

    def run(self, quick: bool) -> list[Row]:
        if quick:
            self.note("A quick run has few turns: targets are judged by the whole run.")
        return self.run_turns(4, QUICK_CASES, (), ()) if quick else self.run_turns(12, RUNNING, ROWS, HELD)

    def run_turns(
        self, turns: int, cases: Sequence[Case], sizes: Sequence[int], held: Sequence[int], scale: float = 1.0
    ) -> list[Row]:
        """Measure these cases and sizes; a `scale` below 1 makes batches smaller."""
        rows: list[Row] = []
        grown = {f"{ROWS_GROW}, {size:,} rows": Case(size, 100_000, 2, 0.0) for size in sizes}
        grown |= {f"{HELD_GROWS}, {size:,} keys held": Case(10_000, size, 2, 0.0, held=size) for size in held}
        with temporary_session("local[2,4]") as spark:
            for case in (each.scaled(scale) for each in cases):
                with temporary_folder() as home:
                    rows += running(spark, home, case, turns)
            with temporary_folder() as home:
                rows += windows(spark, home, int(500_000 * scale), turns)
            for name, case in grown.items():
                with temporary_folder() as home:
                    rows += growth(spark, home, name, case, max(3, turns // 2))
        return rows


def _compared(
    spark: SparkSession, files: Path, home: Path, partitions: int, schema: str, starts: dict[str, StartWithSink]
) -> dict[str, Lane]:
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    return by_turns({who: in_turn(read_files(spark, files, schema), home / who, each) for who, each in starts.items()})


def _write_held(files: Path, case: Case, batches: int) -> None:
    names = pa.array([f"k{number}" for number in range(case.held)])
    write_file(files, 0, names, np.ones(case.held))
    for batch in range(1, batches):
        rng = np.random.default_rng(batch)
        drawn = names.take(pa.array(rng.integers(0, case.held, case.rows)))
        write_file(files, batch, drawn, rng.integers(0, 100, case.rows).astype(float))


def _write_timed(files: Path, batch: int, rows: int) -> None:
    """Write a batch of a minute, a few rows of it late, with keys of Zipf frequencies."""
    rng = np.random.default_rng(batch)
    keys = zipf_ranks(rng, rows, 10_000, exponent=1.0)
    late = np.where(rng.random(rows) < 0.01, 2 * SECONDS_A_BATCH, 0.0)
    seconds = SECONDS_A_BATCH * (batch + 10 + rng.random(rows)) - late
    times = pa.array((seconds * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
    names = pa.array([f"k{number}" for number in range(10_000)]).take(pa.array(keys))
    write_batches(files, [pa.table({"key": names, "value": rng.random(rows), "ts": times})], first=batch)


def _native_windows(window: Any, mode: str, events: DataFrame, checkpoint: str, sink: Sink) -> Any:
    grouped = events.withWatermark("ts", DELAY).groupBy("key", window)
    return start(grouped.agg(sql.count("*").alias("n"), sql.sum("value").alias("total")), checkpoint, sink, mode)


def _balanced_windows(
    grouped: Callable[[Any], Any], mode: str, channels: int, events: DataFrame, checkpoint: str, sink: Sink
) -> Any:
    keyed = unskew.balance(events.withWatermark("ts", DELAY), "key", channels=channels)
    return start(grouped(keyed).aggregate(n="count", total="sum(value)"), checkpoint, sink, mode)
