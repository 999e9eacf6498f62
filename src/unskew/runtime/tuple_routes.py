"""Ways to choose a channel tuple by tuple, each with a source task's own count of what it has sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics
from unskew.routing.table import RoutingTable
from unskew.splitters.base import Splitter
from unskew.splitters.heavy import HeavyKeys
from unskew.splitters.split_keys import SplitKeys

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]
TupleRoute = Callable[[Hashes], Channels]  # called with a partition's tuples in their order, a part at a time


class LeastLoaded:
    """Sends tuples of split keys to the candidate to which this task has sent least, all others to their owner.

    Every task of every batch counts from zero: a batch is over when its fullest channel is done, so each batch has to
    be even on its own, and a task that runs again must choose the same. Tasks with few tuples would all begin with the
    same candidate, so each source begins with another one.

    >>> table = RoutingTable.initial(3).with_split({42: (0, 1, 2)})
    >>> LeastLoaded(table, source=0)(np.full(4, 42)).tolist(), LeastLoaded(table, source=1)(np.full(4, 42)).tolist()
    ([0, 1, 2, 0], [1, 2, 0, 1])
    """

    def __init__(self, table: RoutingTable, source: int) -> None:
        self._table = table
        self._keys = SplitKeys.of_table({key: _rotated(split, source) for key, split in table.split.items()})
        self._loads = np.zeros(table.channels, np.int64)

    def __call__(self, hashes: Hashes) -> Channels:
        routed = self._keys.route(hashes, self._table.lookup(hashes), self._loads)
        self._loads = routed.loads
        return routed.channels


@dataclass(frozen=True, eq=False)
class Head:
    """The hottest keys of a batch, by hash, and how many of its tuples each had.

    >>> statistics = Statistics.of_keys([1, 2, 3], [70.0, 29.0, 1.0])
    >>> Head.of(statistics, threshold=0.05).hashes.tolist()
    [1, 2]
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.int64))
    tuples: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    total: float = 0.0

    @classmethod
    def of(cls, statistics: Statistics, threshold: float) -> Head:
        """Return the keys that have at least a `threshold` share of the tuples."""
        total = statistics.total_tuples
        hot = statistics.tuples >= max(threshold * total, 1)
        return cls(statistics.hashes[hot], statistics.tuples[hot], total)


class ByScheme:
    """Chooses by a splitting scheme, whoever owns the key.

    Counts from zero in every task of every batch, as `LeastLoaded` does. Schemes that deal out in turn begin with
    another channel in every task. The keys in `head` get more choices.

    >>> from unskew.splitters import splitter
    >>> ByScheme(splitter("shuffle"), Head(), channels=3, source=1)(np.array([7, 7, 7, 7])).tolist()
    [1, 2, 0, 1]
    """

    def __init__(self, scheme: Splitter, head: Head, channels: int, source: int) -> None:
        self._scheme, self._loads, self._memory = scheme, np.zeros(channels, np.int64), None
        self._head = SplitKeys()
        if isinstance(scheme, HeavyKeys):
            self._head = scheme.head(head.hashes, head.tuples, head.total, channels)
        if not scheme.estimates_load:
            self._loads[0] = source % channels

    def __call__(self, hashes: Hashes) -> Channels:
        if isinstance(self._scheme, HeavyKeys):
            routed = self._scheme.route_under(self._head, hashes, self._loads)
        else:
            routed = self._scheme.route(hashes, self._loads, self._memory)
        self._loads, self._memory = routed.loads, routed.memory
        return routed.channels


def _rotated(candidates: tuple[int, ...], places: int) -> tuple[int, ...]:
    first = places % len(candidates)
    return candidates[first:] + candidates[:first]
