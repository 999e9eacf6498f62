"""Operators as functions that Spark calls for every key: what people write where Spark has no way of its own."""

from __future__ import annotations

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
    """A function for ``applyInPandasWithState``, and the schemas of its output and of its state."""

    function: Callable[[tuple[Any, ...], Frames, GroupState], Frames]
    output: str
    state: str
    mode: str

    def __call__(self, events: DataFrame) -> DataFrame:
        """Return the stream's rows grouped by key and passed through the function."""
        return events.groupBy("key").applyInPandasWithState(
            self.function, self.output, self.state, self.mode, GroupStateTimeout.NoTimeout
        )


def _mean_of_the_last(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    held = list(state.get[0]) if state.exists else []
    for frame in frames:
        values = pd.Series([*held, *frame["value"]])
        means = values.rolling(10, min_periods=1).mean()[len(held) :]
        held = values.tolist()[-9:]
        yield frame.assign(mean=means.to_numpy())[["key", "value", "ts", "mean"]]
    state.update((held,))


def _most_frequent(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    entries = {item: [count, error] for item, count, error in zip(*state.get, strict=True)} if state.exists else {}
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
    items, counts, errors = [*entries], [c for c, _ in entries.values()], [e for _, e in entries.values()]
    state.update((items, counts, errors))
    yield pd.DataFrame({"key": [key[0]], "items": [items], "counts": [counts], "errors": [errors]})


def _bins(key: tuple[Any, ...], frames: Frames, state: GroupState) -> Frames:
    centres, counts = (list(part) for part in state.get) if state.exists else ([], [])
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
    state.update((centres, counts))
    yield pd.DataFrame({"key": [key[0]], "centres": [centres], "counts": [counts]})


HISTORY = PerKey(
    _mean_of_the_last, "key string, value double, ts timestamp, mean double", "held array<double>", "append"
)
HEAVY_HITTERS = PerKey(
    _most_frequent,
    "key string, items array<double>, counts array<long>, errors array<long>",
    "items array<double>, counts array<long>, errors array<long>",
    "update",
)
HISTOGRAM = PerKey(
    _bins,
    "key string, centres array<double>, counts array<long>",
    "centres array<double>, counts array<long>",
    "update",
)
