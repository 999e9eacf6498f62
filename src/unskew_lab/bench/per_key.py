"""Operators as functions that Spark calls for every key: what people write where Spark has no way of its own."""

from __future__ import annotations

import pickle
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

Frames = Iterator[pd.DataFrame]


@dataclass(frozen=True)
class PerKey:
    """A function for ``applyInPandasWithState``, the schema of its output, and the output mode.

    The state is one pickled value: Spark does not take lists there.
    """

    function: Callable[[tuple[Any, ...], Frames, GroupState], Frames]
    output: str
    mode: str

    def __call__(self, events: DataFrame) -> DataFrame:
        return events.groupBy("key").applyInPandasWithState(
            self.function, self.output, "held binary", self.mode, GroupStateTimeout.NoTimeout
        )


def _held(state: GroupState, nothing: Any) -> Any:
    return pickle.loads(state.get[0]) if state.exists else nothing


def _hold(state: GroupState, value: Any) -> None:
    state.update((pickle.dumps(value),))


def _mean_of_the_last(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    held = _held(state, [])
    for frame in frames:
        values = pd.Series([*held, *frame["value"]])
        means = values.rolling(10, min_periods=1).mean()[len(held) :]
        held = values.tolist()[-9:]
        yield frame.assign(mean=means.to_numpy())[["key", "value", "ts", "mean"]]
    _hold(state, held)


def _most_frequent(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    entries: dict[float, list[int]] = _held(state, {})
    for frame in frames:
        for item in frame["value"]:
            if item in entries:
                entries[item][0] += 1
            elif len(entries) < 20:
                entries[item] = [1, 0]
            else:
                least = min(entries, key=lambda known: entries[known][0])
                count = entries.pop(least)[0]
                entries[item] = [count + 1, count]
    _hold(state, entries)
    items, counts, errors = [*entries], [c for c, _ in entries.values()], [e for _, e in entries.values()]
    yield pd.DataFrame({"key": [key[0]], "items": [items], "counts": [counts], "errors": [errors]})


def _bins(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    centres, counts = _held(state, ([], []))
    for frame in frames:
        for value in frame["value"]:
            place = bisect_left(centres, value)
            if place < len(centres) and centres[place] == value:
                counts[place] += 1
                continue
            centres.insert(place, value)
            counts.insert(place, 1)
            if len(centres) > 50:
                near = min(range(50), key=lambda i: centres[i + 1] - centres[i])
                total = counts[near] + counts[near + 1]
                centres[near] += (centres[near + 1] - centres[near]) * counts[near + 1] / total
                counts[near] = total
                del centres[near + 1], counts[near + 1]
    _hold(state, (centres, counts))
    yield pd.DataFrame({"key": [key[0]], "centres": [centres], "counts": [counts]})


HISTORY = PerKey(_mean_of_the_last, "key string, value double, ts timestamp, mean double", "append")
HEAVY_HITTERS = PerKey(
    _most_frequent, "key string, items array<double>, counts array<long>, errors array<long>", "update"
)
HISTOGRAM = PerKey(_bins, "key string, centres array<double>, counts array<long>", "update")
