"""Ways to choose a channel tuple by tuple, each with a source task's own count of what it has sent."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from unskew.routing.table import RoutingTable
from unskew.splitters.split_keys import SplitKeys

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]


class TupleRoute(Protocol):
    """Chooses a channel for each tuple; called with a partition's tuples in their order, a part at a time."""

    def __call__(self, hashes: Hashes) -> Channels:
        """Return the channel of each tuple."""


class LeastLoaded:
    """Sends tuples of split keys to the candidate to which this task has sent least, all others to their owner.

    Every task of every batch counts from zero: a batch is over when its fullest channel is done, so it is the batch
    that has to be even, and a task that runs again chooses again alike. Tasks with few tuples would all begin with the
    same candidate; so each begins with another one.

    Parameters
    ----------
    table
        The batch's table.
    source
        Number of the task's partition.

    Examples
    --------
    >>> table = RoutingTable.initial(3).with_split({42: (0, 1, 2)})
    >>> LeastLoaded(table, source=0)(np.full(4, 42)).tolist(), LeastLoaded(table, source=1)(np.full(4, 42)).tolist()
    ([0, 1, 2, 0], [1, 2, 0, 1])
    """

    def __init__(self, table: RoutingTable, source: int) -> None:
        self._table = table
        self._keys = SplitKeys.of_table({key: _beginning_at(source, split) for key, split in table.split.items()})
        self._loads = np.zeros(table.channels, np.int64)

    def __call__(self, hashes: Hashes) -> Channels:
        """Return the channel of each tuple."""
        routed = self._keys.route(hashes, self._table.lookup(hashes), self._loads)
        self._loads = routed.loads
        return routed.channels


def _beginning_at(place: int, candidates: tuple[int, ...]) -> tuple[int, ...]:
    first = place % len(candidates)
    return candidates[first:] + candidates[:first]
