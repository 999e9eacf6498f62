"""What is measured: operators on rows of a key, a value and a time, and the same as Spark does it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from unskew.operators import (
    Aggregate,
    HeavyHitters,
    Histogram,
    History,
    Operator,
    SelfJoin,
    SessionAggregate,
    WindowAggregate,
)
from unskew_lab.bench.per_key import HEAVY_HITTERS, HISTOGRAM, HISTORY, PerKey
from unskew_lab.bench.zipf import zipf_ranks

SCHEMA = "key string, value double, ts timestamp"
ROWS_PER_KEY = 5
SHAPES = {"uniform": 0.0, "Zipf 1.2": 1.2}
SECONDS_PER_BATCH = 30
FIRST_SECOND = 1_700_000_000
PYTHON_TARGET = 15.0


@dataclass(frozen=True)
class Subject:
    """An operator to be measured, on rows of ``key``, ``value`` and ``ts``."""

    name: str  # what it is called in the report
    operator: Operator  # not bound yet
    native: Callable[[DataFrame], DataFrame] | None = None  # the same as Spark does it: takes a stream and returns one
    # where there is no such thing, a Python function that Spark calls for every key. Without either only the inside of
    # the operator is measured; for the self-join, `unskew_lab.bench.operator_pairs` has the rest.
    per_key: PerKey | None = None
    watermark: str | None = None  # the delay of the watermark on ts, for operators in event time
    target: float | None = None  # million rows a second and core that are hoped for inside the operator
    native_target: float | None = None  # how many times faster than Spark's own way the whole query should be

    def marked(self, events: DataFrame) -> DataFrame:
        return events if self.watermark is None else events.withWatermark("ts", self.watermark)


def _grouped(*window: Any) -> Callable[..., Callable[[DataFrame], DataFrame]]:
    def by(*results: Any) -> Callable[[DataFrame], DataFrame]:
        return lambda events: events.groupBy("key", *(make() for make in window)).agg(*(make() for make in results))

    return by


def _count() -> Any:
    return sql.count("*").alias("n")


def _total() -> Any:
    return sql.sum("value").alias("total")


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
    Subject(
        "history: mean of the last 10 rows",
        History(10, mean="mean(value)"),
        per_key=HISTORY,
        native_target=PYTHON_TARGET,
    ),
    Subject(
        "self-join: pairs within 20 ms",
        SelfJoin("ts", "20 milliseconds", columns=["value"]),
        watermark="1 minute",
    ),
    Subject(
        "heavy hitters: 20 per key",
        HeavyHitters("value", capacity=20),
        per_key=HEAVY_HITTERS,
        native_target=PYTHON_TARGET,
    ),
    Subject("histogram: 50 bins per key", Histogram("value"), per_key=HISTOGRAM, native_target=PYTHON_TARGET),
]


def batch_rows(batch: int, rows: int, exponent: float) -> pa.Table:
    """Return the rows of a batch: seeded, with a fifth as many keys to draw from, times within the batch's seconds."""
    rng, keys = np.random.default_rng(batch), rows // ROWS_PER_KEY
    names = np.char.add("k", np.random.default_rng(0).permutation(keys).astype(str))
    drawn = zipf_ranks(rng, rows, keys, exponent)
    seconds = FIRST_SECOND + SECONDS_PER_BATCH * (batch + rng.random(rows))
    times = pa.array((seconds * 1e6).astype(np.int64), pa.timestamp("us", "UTC"))
    return pa.table({"key": names[drawn], "value": rng.random(rows).round(4), "ts": times})
