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
    """The measured batches of one run.

    Parameters
    ----------
    seconds
        What each batch took, from the commit of the one before to the end of its sink.
    overload
        What the fullest channel had over the mean, max/mean - 1.
    channels
        Channels in use.
    moved_bytes, state_bytes
        State that moved in each batch, and state held at the end of each.
    table_keys
        Entries of the routing table.
    planning_seconds
        What each plan took.
    """

    seconds: list[float]
    overload: list[float]
    channels: list[int]
    moved_bytes: list[int]
    state_bytes: list[int]
    table_keys: list[int]
    planning_seconds: list[float]

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
        """What all batches took."""
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
        """Share of the state that moved per batch."""
        return float(np.mean(np.divide(self.moved_bytes, np.maximum(self.state_bytes, 1))))


def batches_until_even(
    overload: Sequence[float], changes: Sequence[int], limit: float, *, none: float = float("nan")
) -> list[float]:
    """Return, for every change, how many batches were too uneven before the first that was not.

    Parameters
    ----------
    overload
        Of each batch.
    changes
        The batches that were the first after a change.
    limit
        What counts as even.
    none
        Given where no batch was, until the next change.

    Examples
    --------
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

    Examples
    --------
    >>> round(by_chance(10_000), 3)
    0.03
    """
    return float(3 / np.sqrt(tuples_per_channel))


def event_latencies(seconds: Sequence[float], interval_seconds: float) -> NDArray[np.float64]:
    """Return how long after their arrival the middle rows of each batch were done, if rows come at a steady rate.

    Rows of a batch come evenly within one interval. A batch starts when its rows are there and the one before has
    ended, and takes what it took. A contender that is slower than the rows come falls behind ever further.

    Examples
    --------
    >>> event_latencies([1.0, 3.0, 1.0], interval_seconds=2.0).tolist()
    [2.0, 4.0, 3.0]
    """
    ended, latencies = 0.0, []
    for number, taken in enumerate(seconds):
        complete = (number + 1) * interval_seconds
        ended = max(ended, complete) + taken
        latencies.append(ended - (number + 0.5) * interval_seconds)
    return np.array(latencies)
