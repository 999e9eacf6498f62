"""Slots as keys, for planners: where single keys alone cannot even out the load, whole slots move, too."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics
from unskew.planners.base import Planner
from unskew.planners.memory import Memory
from unskew.planners.report import Report
from unskew.routing.table import RoutingTable
from unskew.runtime.reach import within_reach

_FIRST = 1 << 61


@dataclass(frozen=True, eq=False)
class SlotKeys:
    """A load in which the rest of every slot is a key like any other.

    Planners place keys; what is not listed stays in its slot. A channel with a hot key can then not give away the many
    light keys that it also has. Here each slot's rest is shown to the planner as one more key, whose hash lies in that
    slot, and what the planner decides about it becomes the slot's owner.

    Parameters
    ----------
    load
        What the batch will cost, by listed key and by slot.
    slots
        Slots of the table.
    """

    load: Statistics
    slots: int

    def plan(self, planner: Planner, table: RoutingTable, memory: Memory) -> tuple[RoutingTable, Report, Memory]:
        """Return the table that the planner wants, its report and its memory."""
        stand_ins = self._stand_ins
        tuples, cost, state = self.load.by_slot(self.slots)
        zeros = np.zeros(self.slots)
        everything = Statistics(
            np.append(self.load.hashes, stand_ins),
            tuples=np.append(self.load.tuples, tuples),
            cost=np.append(self.load.cost, cost),
            state=np.append(self.load.state, state),
            slot_tuples=zeros,
            slot_cost=zeros,
            slot_state=zeros,
            distinct_keys=self.load.distinct_keys,
        )
        plan = within_reach(planner, everything, table).plan(everything, table, memory=memory)
        owners = plan.table.lookup(stand_ins)
        listed = np.union1d(self.load.hashes, plan.table.explicit_hashes)
        listed = listed[~np.isin(listed, stand_ins)]
        owner = plan.table.lookup(listed)
        away = owner != owners[np.mod(listed, self.slots)]
        wanted = replace(plan.table, slots=owners, explicit_hashes=listed[away], explicit_channels=owner[away])
        return wanted, plan.report, plan.memory

    @property
    def _stand_ins(self) -> NDArray[np.int64]:
        """One hash in every slot, none of them that of a listed key."""
        first = _FIRST - _FIRST % self.slots
        while np.isin(np.arange(first, first + self.slots), self.load.hashes).any():
            first += self.slots
        return np.arange(first, first + self.slots, dtype=np.int64)
