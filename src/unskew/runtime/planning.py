"""PLAN: from the load of a batch to the table that routes it, and the moves that lead there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics
from unskew.planners.base import Planner
from unskew.planners.memory import Memory
from unskew.planners.report import Report
from unskew.routing.moves import Moves
from unskew.routing.steps import step_towards
from unskew.routing.table import RoutingTable
from unskew.runtime.reach import with_tolerance, within_reach
from unskew.runtime.settings import Planning, Splitting
from unskew.splitters.hot_keys import hot_keys

_FIRST_STAND_IN = 1 << 61

# why a batch has the table that it has
UNPLANNED = "unplanned"  # nobody planned
PLANNED = "planned"  # the planner's table
KEPT = "kept"  # the planner found nothing better
NOT_WORTH_IT = "not worth it"  # the planner's table would have gained less than `min_gain`
RESIZED = "resized"  # there shall be another number of channels


@dataclass(frozen=True, eq=False)
class Plan:
    """What is decided for a batch."""

    before: RoutingTable  # where state is now
    table: RoutingTable  # the table of this batch
    moves: Moves  # what has to move for it
    memory: Memory  # what the planner remembers
    report: Report | None = None  # the planner's own; None if nobody planned
    reason: str = UNPLANNED
    left: Moves = field(default_factory=Moves.none)  # what the planner wanted to move, too

    @classmethod
    def unchanged(cls, table: RoutingTable, memory: Memory) -> Plan:
        """Return the plan that changes nothing."""
        return cls(table, table, Moves.none(), memory)


@dataclass(frozen=True)
class Controller:
    """Decides which channel owns which key in a batch. A pure function: the same load, the same plan."""

    planning: Planning
    splitting: Splitting

    def plan(self, load: Statistics, before: RoutingTable, memory: Memory, channels: int) -> Plan:
        """Return the plan for a batch of that load with that many channels."""
        if channels != before.channels:
            return self._resized(load, before, memory, channels)
        if self.splitting.scheme is not None or load.total_cost <= 0:
            return Plan.unchanged(before, memory)
        base, settled = self._split(before, load)
        whole, target, report, left = load.without(settled.split_keys), settled, None, Moves.none()
        if whole.total_cost > 0:
            planner = self.planning.planner
            # split keys fill up what whole keys leave free, so whole keys have more tolerance
            free = (1 + planner.tolerance) * load.total_cost / whole.total_cost - 1
            planner = with_tolerance(planner, free)
            wanted, report, memory = self._planned(planner, whole, settled, memory)
            gain = report.overload_before - report.overload_after
            if not planner.for_balance or gain >= self.planning.min_gain:
                target = wanted
            else:
                left = settled.moves_to(wanted)
        plan = self._towards(base, target, load, memory, report)
        if len(left):
            return replace(plan, reason=NOT_WORTH_IT, left=left)
        return replace(plan, reason=PLANNED if len(plan.moves) or base is not before else KEPT)

    def _planned(
        self, planner: Planner, load: Statistics, table: RoutingTable, memory: Memory
    ) -> tuple[RoutingTable, Report, Memory]:
        """Plan by single keys; if those alone cannot even out the load and slots could, plan by slots, too."""
        plan = within_reach(planner, load, table).plan(load, table, memory=memory)
        mean = load.total_cost / table.channels
        reachable = max(planner.tolerance, float(load.cost.max(initial=0.0)) / mean - 1.0 + planner.tolerance / 2)
        if not planner.for_balance or plan.report.overload_after <= reachable or not load.slot_cost.any():
            return plan.table, plan.report, plan.memory
        return _slots_as_keys(planner, load, table, memory)

    def _resized(self, load: Statistics, before: RoutingTable, memory: Memory, channels: int) -> Plan:
        whole = load.without(before.split_keys)
        plan = self.planning.planner.plan(whole, before, channels=channels, memory=memory)
        return replace(self._towards(before, plan.table, load, plan.memory, plan.report), reason=RESIZED)

    def _towards(
        self, base: RoutingTable, target: RoutingTable, load: Statistics, memory: Memory, report: Report | None
    ) -> Plan:
        """Return the plan that leads to a table, as far as `max_move_bytes` allows in one batch."""
        moves, left = base.moves_to(target), Moves.none()
        some, rest = self._portion(moves, load, len(base.slots)) if len(moves) else (moves, left)
        if len(rest):
            target, left = step_towards(base, target, some, base.version + 1), rest
            moves = base.moves_to(target)
        return Plan(base, target, moves, memory, report, left=left)

    def _split(self, table: RoutingTable, load: Statistics) -> tuple[RoutingTable, RoutingTable]:
        """Return the table with hot keys split as well, which takes no move, and then with cool keys whole again."""
        split = hot_keys(load, table, self.planning.planner.tolerance) if self.splitting.auto else {}
        if split == table.split:
            return table, table
        cool = {key: channels for key, channels in table.split.items() if key not in split}
        homes = [channels[0] for channels in cool.values()]
        table = table.with_split({**split, **cool})
        settled = table.with_split(split)
        explicit = np.append(settled.explicit_hashes, np.array(list(cool), np.int64))
        return table, settled.with_explicit(explicit, np.append(settled.explicit_channels, homes))

    def _portion(self, moves: Moves, load: Statistics, slots: int) -> tuple[Moves, Moves]:
        """Return the moves with the largest gain per byte that fit into one batch, at least one, and the others."""
        key_cost, key_bytes = load.cost_and_state(moves.keys)
        _, slot_cost, slot_bytes = load.by_slot(slots)
        size = np.concatenate([slot_bytes[moves.slots], key_bytes])
        gain = np.concatenate([slot_cost[moves.slots], key_cost])
        order = np.argsort(-gain / np.maximum(size, 1.0), kind="stable")
        fits = np.cumsum(size[order]) <= self.planning.max_move_bytes
        fits[:1] = True
        chosen = np.zeros(len(size), bool)
        chosen[order[fits]] = True
        of_slots, of_keys = chosen[: len(moves.slots)], chosen[len(moves.slots) :]
        return moves.only(of_slots, of_keys), moves.only(~of_slots, ~of_keys)


def _slots_as_keys(
    planner: Planner, load: Statistics, table: RoutingTable, memory: Memory
) -> tuple[RoutingTable, Report, Memory]:
    """Plan with each slot's rest as one more key, so that whole slots can move, too.

    Planners place keys; keys that are not listed stay in their slot, so a channel with a hot key could not give away
    its many light keys. Here each slot has a stand-in, a key whose hash lies in that slot. What the planner decides
    about the stand-in becomes the slot's owner.
    """
    slots = len(table.slots)
    stand_ins = _stand_ins(load, slots)
    tuples, cost, state = load.by_slot(slots)
    zeros = np.zeros(slots)
    everything = Statistics(
        np.append(load.hashes, stand_ins),
        tuples=np.append(load.tuples, tuples),
        cost=np.append(load.cost, cost),
        state=np.append(load.state, state),
        slot_tuples=zeros,
        slot_cost=zeros,
        slot_state=zeros,
        distinct_keys=load.distinct_keys,
    )
    plan = within_reach(planner, everything, table).plan(everything, table, memory=memory)
    owners = plan.table.lookup(stand_ins)
    listed = np.setdiff1d(np.union1d(load.hashes, plan.table.explicit_hashes), stand_ins)
    owner = plan.table.lookup(listed)
    away = owner != owners[np.mod(listed, slots)]
    wanted = replace(plan.table, slots=owners, explicit_hashes=listed[away], explicit_channels=owner[away])
    return wanted, plan.report, plan.memory


def _stand_ins(load: Statistics, slots: int) -> NDArray[np.int64]:
    """Return one hash in every slot, none of them that of a listed key."""
    first = _FIRST_STAND_IN - _FIRST_STAND_IN % slots
    while np.isin(np.arange(first, first + slots), load.hashes).any():
        first += slots
    return np.arange(first, first + slots, dtype=np.int64)
