"""Operators: rows per second inside them, and whole queries beside Spark's own way.

A new operator is one more entry in `SUBJECTS`.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.bench.harness import Benchmark, Row, interleave
from unskew.bench.streams import batch_seconds, discard
from unskew.hashing import hash_keys
from unskew.operators import (
    Aggregate,
    Clock,
    HeavyHitters,
    Histogram,
    History,
    KeyedState,
    MemoryStore,
    Operator,
    SelfJoin,
    SessionAggregate,
    WindowAggregate,
    group_rows,
)
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.spark import session

SCHEMA = "key string, value double, ts timestamp"
ROWS_PER_KEY = 5
CHANNELS = 4
SLOTS = 4096
OURS, NATIVE = "unskew", "Spark's own"
SHAPES = {"uniform": 0.0, "Zipf 1.2": 1.2}
SECONDS_PER_BATCH = 30
FIRST_SECOND = 1_700_000_000


@dataclass(frozen=True)
class Subject:
    """An operator to be measured, on rows of ``key``, ``value`` and ``ts``.

    Parameters
    ----------
    name
        What it is called in the report.
    operator
        Not bound yet.
    native
        The same as Spark does it: takes a stream and returns one; where there is no such thing, only the inside of the
        operator is measured.
    watermark
        The delay of the watermark on ``ts``, for operators in event time.
    target
        Million rows a second and core that are hoped for inside the operator.
    native_target
        How many times faster than Spark's own way the whole query should be.
    """

    name: str
    operator: Operator
    native: Callable[[DataFrame], DataFrame] | None = None
    watermark: str | None = None
    target: float | None = None
    native_target: float | None = None

    def marked(self, events: DataFrame) -> DataFrame:
        """Return the stream with its watermark."""
        return events if self.watermark is None else events.withWatermark("ts", self.watermark)


def _grouped(*window: Any) -> Callable[..., Callable[[DataFrame], DataFrame]]:
    def by(*results: Any) -> Callable[[DataFrame], DataFrame]:
        return lambda events: events.groupBy("key", *(make() for make in window)).agg(*(make() for make in results))

    return by


def _count() -> Any:
    return sql.count("*").alias("n")


def _total() -> Any:
    return sql.sum("value").alias("total")


def _self_join(events: DataFrame) -> DataFrame:
    near = sql.expr("l.key = r.key and r.ts >= l.ts and r.ts <= l.ts + interval 20 milliseconds")
    return events.alias("l").join(events.alias("r"), near).selectExpr("l.key", "l.value", "r.value as other")


SUBJECTS = [
    Subject(
        "aggregate: count and sum",
        Aggregate(n="count", total="sum(value)"),
        _grouped()(_count, _total),
        target=5.0,
        native_target=1.0,
    ),
    Subject(
        "aggregate: count, sum, min, max, mean",
        Aggregate(n="count", total="sum(value)", least="min(value)", most="max(value)", mean="mean(value)"),
        target=5.0,
    ),
    Subject("aggregate: variance", Aggregate(spread="variance(value)"), target=5.0),
    Subject("aggregate: first and last", Aggregate(first="first(value)", last="last(value)"), target=5.0),
    Subject("aggregate: top 5", Aggregate(top="top(value, 5)"), target=5.0),
    Subject("aggregate: distinct", Aggregate(distinct="approx_count_distinct(value)"), target=5.0),
    Subject(
        "tumbling windows: count and sum",
        WindowAggregate("1 minute", output_mode="update", n="count", total="sum(value)"),
        _grouped(lambda: sql.window("ts", "1 minute"))(_count, _total),
        watermark="1 minute",
        native_target=1.0,
    ),
    Subject(
        "sliding windows (2): count and sum",
        WindowAggregate("1 minute", "30 seconds", output_mode="update", n="count", total="sum(value)"),
        _grouped(lambda: sql.window("ts", "1 minute", "30 seconds"))(_count, _total),
        watermark="1 minute",
        native_target=1.0,
    ),
    Subject(
        "session windows: count and sum",
        SessionAggregate("20 seconds", n="count", total="sum(value)"),
        _grouped(lambda: sql.session_window("ts", "20 seconds"))(_count, _total),
        watermark="1 minute",
        native_target=1.0,
    ),
    Subject("history: mean of the last 10 rows", History(10, mean="mean(value)")),
    Subject(
        "self-join: pairs within 20 ms",
        SelfJoin("ts", "20 milliseconds", columns=["value"]),
        _self_join,
        watermark="1 minute",
        native_target=0.5,
    ),
    Subject("heavy hitters: 20 per key", HeavyHitters("value", capacity=20)),
    Subject("histogram: 50 bins per key", Histogram("value")),
]


class OperatorsBenchmark(Benchmark):
    """Every operator of `SUBJECTS` on uniform and on Zipf 1.2 keys.

    Inside: what `combine`, `update` and `expire` take for a batch on one channel that holds the keys already, in time
    of the processor; "all told" adds hashing, grouping and the commit. Whole: the median time of a batch, contenders by
    turns on the same files.
    """

    name: ClassVar[str] = "operators"
    summary: ClassVar[str] = "rows per second inside operators, and whole queries beside Spark's own"

    def run(self, quick: bool) -> list[Row]:
        """Measure; quickly, the inside only, on fewer rows."""
        rows, repeats = (100_000, 3) if quick else (500_000, 7)
        results = [row for subject in SUBJECTS for row in inside(subject, rows, repeats)]
        return results if quick else results + whole(SUBJECTS, rows // 2)


def batch_rows(batch: int, rows: int, exponent: float) -> pa.Table:
    """Return the rows of a batch: seeded, with a fifth as many keys to draw from, times within the batch's seconds."""
    rng, keys = np.random.default_rng(batch), rows // ROWS_PER_KEY
    names = np.char.add("k", np.random.default_rng(0).permutation(keys).astype(str))
    weight = 1 / np.arange(1, keys + 1) ** exponent
    drawn = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(rows)).clip(0, keys - 1)
    seconds = FIRST_SECOND + SECONDS_PER_BATCH * (batch + rng.random(rows))
    times = pa.array((seconds * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
    return pa.table({"key": names[drawn], "value": rng.random(rows).round(4), "ts": times})


def inside(subject: Subject, rows: int, repeats: int) -> list[Row]:
    """Measure one channel, without Spark."""
    results = []
    for shape, exponent in SHAPES.items():
        attempts = _attempts(subject, rows, exponent)
        contenders = {"inside": partial(_next, attempts, False), "all told": partial(_next, attempts, True)}
        times = interleave(contenders, repeats=repeats, clock=time.process_time)
        for part, timing in times.items():
            results.append(
                Row(
                    f"{subject.name}, {shape}, {part}",
                    OURS,
                    rows / timing.median_seconds / 1e6,
                    "M rows/s",
                    target=subject.target if part == "inside" else None,
                )
            )
    return results


def _attempts(subject: Subject, rows: int, exponent: float) -> Iterator[Callable[[bool], None]]:
    """Yield functions that run the same batch on the same state."""
    first, second = (batch_rows(number, rows, exponent) for number in range(2))
    schema = first.schema if subject.watermark is None else first.schema.with_metadata({EVENT_TIME_METADATA: "ts"})
    operator, store = subject.operator.bind(schema, ("key",)), MemoryStore()
    ends = [(FIRST_SECOND + SECONDS_PER_BATCH * batch) * 1000 for batch in (-4, -3, -2)]
    with _opened(operator, store) as state:
        _run(operator, state, *_arrived(operator, first), Clock(0, 0, ends[1], ends[0]))
        state.commit("first")
    arrived = _arrived(operator, second)
    while True:
        state = _opened(operator, store.copy())

        def attempt(all_told: bool, state: KeyedState = state) -> None:
            given = _arrived(operator, second) if all_told else arrived
            _run(operator, state, *given, Clock(1, 0, ends[2], ends[1]))
            if all_told:
                state.commit("second")

        yield attempt


def _next(attempts: Iterator[Callable[[bool], None]], all_told: bool) -> None:
    next(attempts)(all_told)


def _arrived(operator: Operator, rows: pa.Table) -> tuple[pa.Table, Any]:
    return rows, group_rows(rows, hash_keys(rows, "key"), ["key"])


def _run(operator: Operator, state: KeyedState, rows: pa.Table, groups: Any, clock: Clock) -> None:
    combined, groups = operator.combine(rows, groups)
    operator.update(state, groups, combined, clock)
    operator.expire(state, clock)


def _opened(operator: Operator, store: MemoryStore) -> KeyedState:
    return KeyedState.open(store, operator.key_schema, operator.value_schema, slots=SLOTS, deadline=operator.deadline)


def whole(subjects: list[Subject], rows: int, batches: int = 7) -> list[Row]:
    """Compare whole queries with Spark's own."""
    results = []
    spark = session(master="local[2,4]", config={"spark.sql.shuffle.partitions": str(CHANNELS)})
    try:
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
            for shape, exponent in SHAPES.items():
                folder = Path(home) / shape
                _write(folder, batches, rows, exponent)
                for subject in subjects:
                    if subject.native is not None:
                        name = f"{subject.name}, {shape}, {rows:,} rows a batch"
                        results += _beside_spark(spark, folder, subject, name)
    finally:
        spark.stop()
    return results


def _beside_spark(spark: SparkSession, folder: Path, subject: Subject, name: str) -> list[Row]:
    mode = subject.operator.output_mode

    def ours(events: DataFrame, checkpoint: str) -> Any:
        balanced = unskew.balance(subject.marked(events), "key", channels=CHANNELS)
        return _started(balanced.apply(subject.operator), mode, checkpoint)

    def native(events: DataFrame, checkpoint: str) -> Any:
        assert subject.native is not None
        return _started(subject.native(subject.marked(events)), mode, checkpoint)

    contenders = {OURS: ours, NATIVE: native}
    times = batch_seconds(spark, folder, contenders, rounds=1, skipped=3, schema=SCHEMA)
    ratio = median(times[NATIVE]) / median(times[OURS])
    return [
        Row(f"{name}: times faster", OURS, ratio, "x", ratio=ratio, target=subject.native_target),
        *(Row(name, who, median(seconds), "s") for who, seconds in times.items()),
    ]


def _started(rows: Any, mode: str, checkpoint: str) -> Any:
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
    return writer.foreachBatch(discard).trigger(availableNow=True).start()


def _write(folder: Path, batches: int, rows: int, exponent: float) -> None:
    folder.mkdir(parents=True)
    for batch in range(batches):
        path = folder / f"{batch:05d}.parquet"
        pa.parquet.write_table(batch_rows(batch, rows, exponent), path)
        os.utime(path, (FIRST_SECOND + batch, FIRST_SECOND + batch))
