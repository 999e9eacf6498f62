"""A running count and sum per key, as Spark users write it and as unskew runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import unskew
from unskew_lab.bench.streams import Sink, discard, start
from unskew_lab.bench.work import Kind, spend

CHANNELS = 4
OUTPUT, STATE = "key string, n long, total double", "n long, total double"


def native_sums(events: DataFrame, checkpoint: str, sink: Sink = discard) -> Any:
    """Spark's own aggregation in update mode."""
    sums = events.groupBy("key").agg(sql.count("*").alias("n"), sql.sum("value").alias("total"))
    return start(sums, checkpoint, sink)


def balanced_sums(events: DataFrame, checkpoint: str, sink: Sink = discard, **options: Any) -> Any:
    """The same with unskew's vectorised operator."""
    return start(_balanced(events, options).aggregate(n="count", total="sum(value)"), checkpoint, sink)


def native_function(
    events: DataFrame, checkpoint: str, sink: Sink = discard, *, seconds_per_row: float = 0.0, kind: Kind = "wait"
) -> Any:
    """The same with a function per key, called by Spark's ``applyInPandasWithState``."""
    return start(_per_key(events.groupBy("key"), seconds_per_row, kind), checkpoint, sink)


def balanced_function(
    events: DataFrame,
    checkpoint: str,
    sink: Sink = discard,
    *,
    seconds_per_row: float = 0.0,
    kind: Kind = "wait",
    **options: Any,
) -> Any:
    """The same function, called by unskew: a drop-in."""
    return start(_per_key(_balanced(events, options), seconds_per_row, kind), checkpoint, sink)


def balanced_lean_function(events: DataFrame, checkpoint: str, sink: Sink = discard, **options: Any) -> Any:
    """The same logic as a function of arrays."""
    return start(_balanced(events, options).apply_per_key(lean_count_and_sum, OUTPUT, STATE), checkpoint, sink)


def counting(seconds_per_row: float, kind: Kind) -> Any:
    """Return the function that Spark and unskew call for every key of a batch.

    It reads the key's count and sum from the state, takes its time for every row, adds the rows' count and the sum of
    their values in pandas, writes the state, and yields one small frame with the key's new count and sum.
    """

    def count_and_sum(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        n, total = state.get if state.exists else (0, 0.0)
        for frame in frames:
            if seconds_per_row:
                spend(seconds_per_row * len(frame), kind)
            n += len(frame)
            total += float(frame["value"].sum())
        state.update((n, total))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})

    return count_and_sum


def lean_count_and_sum(key: tuple[str], rows: Any, state: tuple[Any, ...] | None) -> Any:
    """Count and sum in NumPy, returning one row per key."""
    n, total = state or (0, 0.0)
    values = rows["value"]
    n, total = n + len(values), total + float(values.sum())
    return (n, total), (key[0], n, total)


def _balanced(events: DataFrame, options: dict[str, Any]) -> Any:
    return unskew.balance(events, "key", **{"channels": CHANNELS, **options})


def _per_key(grouped: Any, seconds_per_row: float, kind: Kind) -> Any:
    function = counting(seconds_per_row, kind)
    return grouped.applyInPandasWithState(function, OUTPUT, STATE, "update", "NoTimeout")
