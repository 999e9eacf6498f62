"""A running count and sum per key, as Spark users write it and as unskew runs it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sql
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

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


def native_processor(events: DataFrame, checkpoint: str, sink: Sink = discard, *, by_row: bool = False) -> Any:
    """The same as a stateful processor, on frames or rows, called by Spark's ``transformWithState``."""
    return start(_processed(events.groupBy("key"), by_row), checkpoint, sink)


def balanced_processor(
    events: DataFrame, checkpoint: str, sink: Sink = discard, *, by_row: bool = False, **options: Any
) -> Any:
    """The same processor, called by unskew: a drop-in."""
    return start(_processed(_balanced(events, options), by_row), checkpoint, sink)


class CountAndSum(StatefulProcessor):
    """Keeps a key's count and sum in one value, and yields a frame of one row."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._sums = handle.getValueState("sums", STATE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        n, total = self._sums.get() or (0, 0.0)
        for frame in rows:
            n, total = n + len(frame), total + float(frame["value"].sum())
        self._sums.update((n, total))
        yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})


class CountAndSumRows(CountAndSum):
    """The same on rows."""

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        n, total = self._sums.get() or (0, 0.0)
        for row in rows:
            n, total = n + 1, total + row.value
        self._sums.update((n, total))
        yield Row(key=key[0], n=n, total=total)


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


def _processed(grouped: Any, by_row: bool) -> Any:
    if by_row:
        return grouped.transformWithState(CountAndSumRows(), OUTPUT, "update", "None")
    return grouped.transformWithStateInPandas(CountAndSum(), OUTPUT, "update", "None")
