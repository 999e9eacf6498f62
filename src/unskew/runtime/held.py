"""How much state there is, by key and by slot, as the channels reported it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable

Column = NDArray[np.float64]
REMEMBERED = 1 << 14


@dataclass(frozen=True, eq=False)
class Held:
    """Bytes of state: single keys that the table lists or that were heavy of late, and everything by slot."""

    slot_bytes: NDArray[np.float64]  # of all keys that the routing table does not list
    # Single keys, ascending. Those that the table does not list also count in their slot.
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    key_bytes: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def of_keys(self, hashes: NDArray[np.int64]) -> Column:
        """Return the bytes of each key, 0 where they are not known."""
        if not len(self.hashes):
            return np.zeros(len(hashes))
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[place] == hashes, self.key_bytes[place], 0.0)

    def beside(self, hashes: NDArray[np.int64], table: RoutingTable) -> tuple[Column, Column]:
        """Return the bytes of these keys, and by slot those of all other keys."""
        mine, slots = self.of_keys(hashes), len(self.slot_bytes)
        within = ~np.isin(hashes, table.listed_keys)
        rest = self.slot_bytes - add_up(mine[within], slot_of(hashes[within], slots), slots)
        return mine, np.maximum(rest, 0.0)

    def after(self, statistics: Mapping[int, Statistics], total: Statistics, table: RoutingTable) -> Held:
        """Return what is held after a batch, given each channel's statistics and their sum.

        Channels that did not report hold what they held before.
        """
        slot_bytes, slots = self.slot_bytes.copy(), len(self.slot_bytes)
        for channel, own in statistics.items():
            loose = ~np.isin(own.hashes, table.listed_keys)
            inside = own.by_slot(slots)[2] + add_up(own.state[loose], slot_of(own.hashes[loose], slots), slots)
            mine = table.slots == channel
            slot_bytes[mine] = inside[mine]
        kept = ~np.isin(self.hashes, total.hashes)
        if len(self.hashes) > REMEMBERED:
            kept &= np.isin(self.hashes, table.listed_keys)
        hashes = np.append(total.hashes, self.hashes[kept])
        key_bytes = np.append(total.state, self.key_bytes[kept])
        order = np.argsort(hashes)
        return Held(slot_bytes, hashes[order], key_bytes[order])
