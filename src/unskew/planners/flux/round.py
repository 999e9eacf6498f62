"""What a round of Flux decides on, and what its policies share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import add_up

Column = NDArray[np.float64]
Places = NDArray[np.int64]
Channels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Round:
    """Slots and channels as the collection phase found them.

    Parameters
    ----------
    tuples, state_bytes, current, spilled
        Per slot: rows of the collection phase, state, owner, whether the state lies on disk.
    utilisation
        Per channel: busy share of the collection phase.
    memory_bytes
        Per channel: memory for state.
    """

    tuples: Column
    state_bytes: Column
    current: Channels
    spilled: NDArray[np.bool_]
    utilisation: Column
    memory_bytes: Column

    @property
    def channels(self) -> int:
        """How many channels there are."""
        return len(self.utilisation)

    @cached_property
    def channel_tuples(self) -> Column:
        """Rows per channel (T in Flux)."""
        return add_up(self.tuples, self.current, self.channels)

    @cached_property
    def used_bytes(self) -> Column:
        """State per channel, in memory or not."""
        return add_up(self.state_bytes, self.current, self.channels)

    @cached_property
    def excess_bytes(self) -> Column:
        """Memory left per channel if everything were resident (E in Flux); negative where it cannot be."""
        return self.memory_bytes - self.used_bytes

    def slots_of(self, channel: int, *ranks: Column | NDArray[np.bool_]) -> Places:
        """Return the slots of a channel in ascending order of the ranks, the first of which counts most."""
        own = np.flatnonzero(self.current == channel)
        return own[np.lexsort([rank[own] for rank in reversed(ranks)])]


def pairs_from_the_ends(
    order: NDArray[np.intp], may_receive: NDArray[np.bool_] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the first with the last, the second with the last but one, and so on; skip those who may not receive.

    >>> list(pairs_from_the_ends(np.array([4, 2, 0, 1, 3])))
    [(4, 3), (2, 1)]
    >>> list(pairs_from_the_ends(np.array([4, 2, 0, 1, 3]), np.array([True, True, True, False, True])))
    [(4, 1), (2, 0)]
    """
    last = len(order)
    for place in range(len(order)):
        last -= 1
        while last > place and may_receive is not None and not may_receive[order[last]]:
            last -= 1
        if last <= place:
            return
        yield int(order[place]), int(order[last])


def first_true(good: NDArray[np.bool_]) -> int | None:
    """Return where the first True stands, None if there is none."""
    place = int(good.argmax()) if len(good) else 0
    return place if len(good) and good[place] else None
