"""What a round of Flux decides on, and how it pairs channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import add_up
from unskew.planners.problem import Channels, Column

Move = tuple[int, int]  # a slot and its new channel


@dataclass(frozen=True, eq=False)
class Round:
    """Slots and channels as the collection phase found them."""

    tuples: Column  # per slot: rows of the collection phase
    state_bytes: Column
    current: Channels  # per slot: its owner
    spilled: NDArray[np.bool_]  # per slot: whether its state lies on disk
    utilisation: Column  # per channel: busy share of the collection phase
    memory_bytes: Column  # per channel: memory for state

    @cached_property
    def channel_tuples(self) -> Column:
        """Rows per channel (T in Flux)."""
        return add_up(self.tuples, self.current, len(self.utilisation))

    @cached_property
    def used_bytes(self) -> Column:
        """State per channel, in memory or not."""
        return add_up(self.state_bytes, self.current, len(self.utilisation))

    @cached_property
    def excess_bytes(self) -> Column:
        """Memory left per channel if everything were resident (E in Flux); negative where it cannot be."""
        return self.memory_bytes - self.used_bytes

    def slots_of(self, channel: int, *ranks: Column | NDArray[np.bool_]) -> NDArray[np.int64]:
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
    receivers = [place for place in range(len(order)) if may_receive is None or may_receive[order[place]]]
    for donor, receiver in enumerate(reversed(receivers)):
        if receiver <= donor:
            return
        yield int(order[donor]), int(order[receiver])
