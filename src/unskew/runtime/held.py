"""How much state there is, by key and by slot, as the channels reported it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import add_up
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable
from unskew.runtime.report import ChannelReport

Column = NDArray[np.float64]
REMEMBERED = 1 << 14


@dataclass(frozen=True, eq=False)
class Held:
    """Bytes of state: single keys that are listed in the table or were heavy of late, and everything by slot.

    Parameters
    ----------
    slot_bytes
        Per slot: state of all keys that the routing table does not list.
    hashes, key_bytes
        Single keys, ascending. Those that the table does not list are part of their slot, too.
    """

    slot_bytes: NDArray[np.float64]
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    key_bytes: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def of_keys(self, hashes: NDArray[np.int64]) -> Column:
        """Return the bytes of each key, 0 where they are not known."""
        if not len(self.hashes):
            return np.zeros(len(hashes))
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[place] == hashes, self.key_bytes[place], 0.0)

    def beside(self, hashes: NDArray[np.int64], table: RoutingTable) -> tuple[Column, Column]:
        """Return the bytes of some keys, and of all others by slot."""
        mine, slots = self.of_keys(hashes), len(self.slot_bytes)
        within = ~np.isin(hashes, table.listed_keys)
        rest = self.slot_bytes - add_up(mine[within], slot_of(hashes[within], slots), slots)
        return mine, np.maximum(rest, 0.0)

    def after(self, reports: Iterable[ChannelReport], table: RoutingTable) -> Held:
        """Return what is held after a batch under that table; channels that did not report hold what they held."""
        slot_bytes, slots = self.slot_bytes.copy(), len(self.slot_bytes)
        told, sizes = [np.empty(0, np.int64)], [np.empty(0)]
        for report in reports:
            hashes, state = report.statistics.hashes, report.statistics.state
            loose = ~np.isin(hashes, table.listed_keys)
            inside = report.statistics.by_slot(slots)[2] + add_up(state[loose], slot_of(hashes[loose], slots), slots)
            own = table.slots == report.channel
            slot_bytes[own] = inside[own]
            told.append(hashes)
            sizes.append(state)
        known, entry = np.unique(np.concatenate(told), return_inverse=True)
        kept = ~np.isin(self.hashes, known)
        if len(self.hashes) > REMEMBERED:
            kept &= np.isin(self.hashes, table.listed_keys)
        hashes = np.append(known, self.hashes[kept])
        key_bytes = np.append(add_up(np.concatenate(sizes), entry, len(known)), self.key_bytes[kept])
        order = np.argsort(hashes)
        return Held(slot_bytes, hashes[order], key_bytes[order])
