"""What one contender did with one stream, and the numbers that say how well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

UTILISATION = 0.9


@dataclass(frozen=True)
class Measured:
    """The measured batches of one run."""

    seconds: list[float]  # what each batch took, from the commit of the one before to the end of its sink
    overload: list[float]  # what the fullest channel had over the mean, max/mean - 1
    channels: list[int]  # channels in use
    # moved_bytes, state_bytes: state that moved in each batch, and state held at the end of each
    moved_bytes: list[int]
    state_bytes: list[int]
    table_keys: list[int]  # entries of the routing table
    planning_seconds: list[float]  # what each plan took

    @classmethod
    def of(cls, query: Any, seconds: Mapping[int, float], skipped: int) -> Measured:
        """Read a query that has ended, without its first batches, given what each batch took."""
        progress = [each for each in query.recentProgress if each.numInputRows][skipped:]
        known = {each.batch_id: each for each in query.figures}
        figures = [known[each.batchId] for each in progress]
        return cls(
            seconds=[seconds[each.batchId] for each in progress],
            overload=[each.imbalance - 1 for each in figures],
            channels=[each.channels for each in figures],
            moved_bytes=[each.moved_bytes for each in figures],
            state_bytes=[each.state_bytes for each in figures],
            table_keys=[each.table_keys for each in figures],
            planning_seconds=[each.planning_seconds for each in figures if each.planner],
        )

    @property
    def total_seconds(self) -> float:
        return float(np.sum(self.seconds))

    @property
    def even_share(self) -> float:
        """Throughput over that of even channels if nothing but the channels' work took time."""
        return len(self.overload) / float(np.sum(np.add(1.0, self.overload)))

    @property
    def resized(self) -> tuple[int, ...]:
        """The batches that were the first with another number of channels."""
        return tuple((np.flatnonzero(np.diff(self.channels)) + 1).tolist())

    @property
    def moved_share(self) -> float:
        return float(np.mean(np.divide(self.moved_bytes, np.maximum(self.state_bytes, 1))))


def batches_until_even(
    overload: Sequence[float], changes: Sequence[int], limit: float, *, none: float = float("nan")
) -> list[float]:
    """Return, for every change, how many batches were over the limit before the first that was not.

    `changes` are the first batches after a change. Where every batch until the next change is over it, return `none`.

    >>> batches_until_even([0.7, 0.7, 0.05, 0.04, 0.6, 0.5], changes=[0, 4], limit=0.08)
    [2.0, nan]
    """
    ends = [*changes[1:], len(overload)]
    waits = []
    for start, end in zip(changes, ends, strict=True):
        even = np.flatnonzero(np.asarray(overload[start:end]) <= limit)
        waits.append(float(even[0]) if len(even) else none)
    return waits


def by_chance(tuples_per_channel: float) -> float:
    """Return the overload that chance alone may add: three standard deviations of a channel's count.

    >>> round(by_chance(10_000), 3)
    0.03
    """
    return float(3 / np.sqrt(tuples_per_channel))


def event_latencies(seconds: Sequence[float], interval_seconds: float) -> NDArray[np.float64]:
    """Return how long after their arrival the middle rows of each batch were done, if rows come at a steady rate.

    Rows of a batch come evenly within one interval. A batch starts when its rows are there and the one before has
    ended, and takes what it took. A contender that is slower than the rows come falls behind ever further.

    >>> event_latencies([1.0, 3.0, 1.0], interval_seconds=2.0).tolist()
    [2.0, 4.0, 3.0]
    """
    ended, latencies = 0.0, []
    for number, taken in enumerate(seconds):
        complete = (number + 1) * interval_seconds
        ended = max(ended, complete) + taken
        latencies.append(ended - (number + 0.5) * interval_seconds)
    return np.array(latencies)
