"""PLAN: from the load of a batch to the table that routes it, and the moves that lead there."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.load.statistics import Statistics, add_up
from unskew.planners.base import Planner
from unskew.planners.memory import Memory
from unskew.planners.report import Report
from unskew.routing.moves import Moves
from unskew.routing.steps import step_towards
from unskew.routing.table import RoutingTable
from unskew.runtime.reach import with_tolerance, within_reach
from unskew.runtime.settings import Planning, Splitting
from unskew.runtime.slot_keys import SlotKeys
from unskew.splitters.hot_keys import hot_keys

SECONDS_PER_TASK = 0.05
"""Work that a task is worth; a task costs some 30 ms on two cores."""

MOST_SECONDS_PER_TASK = 1.0


@dataclass(frozen=True, eq=False)
class Plan:
    """What is decided for a batch.

    Parameters
    ----------
    before
        The table that holds where state is now.
    table, moves
        The table of this batch, and what has to move for it.
    memory
        What the planner remembers.
    report
        What the planner says of its plan; None if none was made.
    """

    before: RoutingTable
    table: RoutingTable
    moves: Moves
    memory: Memory
    report: Report | None = None

    @classmethod
    def unchanged(cls, table: RoutingTable, memory: Memory) -> Plan:
        """Return the plan that nothing changes."""
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
        whole, target, report = load.without(settled.split_keys), settled, None
        if whole.total_cost > 0:
            planner = _filled_up(self.planning.planner, whole, load)
            wanted, report, memory = self._planned(planner, whole, settled, memory)
            gain = report.imbalance_before - report.imbalance_after
            if not planner.for_balance or gain >= self.planning.min_gain:
                target = wanted
        return self._towards(base, target, load, memory, report)

    def _planned(
        self, planner: Planner, load: Statistics, table: RoutingTable, memory: Memory
    ) -> tuple[RoutingTable, Report, Memory]:
        """Plan by single keys; where those alone do not suffice, and slots could, by slots too."""
        plan = within_reach(planner, load, table).plan(load, table, memory=memory)
        mean = load.total_cost / table.channels
        reachable = max(planner.tolerance, float(load.cost.max(initial=0.0)) / mean - 1.0 + planner.tolerance / 2)
        if not planner.for_balance or plan.report.imbalance_after <= reachable or not load.slot_cost.any():
            return plan.table, plan.report, plan.memory
        return SlotKeys(load, len(table.slots)).plan(planner, table, memory)

    def _resized(self, load: Statistics, before: RoutingTable, memory: Memory, channels: int) -> Plan:
        whole = load.without(before.split_keys)
        plan = self.planning.planner.plan(whole, before, channels=channels, memory=memory)
        return self._towards(before, plan.table, load, plan.memory, plan.report)

    def _towards(
        self, base: RoutingTable, target: RoutingTable, load: Statistics, memory: Memory, report: Report | None
    ) -> Plan:
        """Return the plan that leads to a table, as far as the state that may move in one batch allows."""
        moves = base.moves_to(target)
        if not len(moves):
            return Plan(base, target, moves, memory, report)
        some = self._portion(moves, load, len(base.slots))
        if len(some) == len(moves):
            return Plan(base, target, moves, memory, report)
        table = step_towards(base, target, some, base.version + 1)
        return Plan(base, table, base.moves_to(table), memory, report)

    def _split(self, table: RoutingTable, load: Statistics) -> tuple[RoutingTable, RoutingTable]:
        """Return the table with more keys split, which takes no move, and the one where cool keys are whole again."""
        split = hot_keys(load, table, self.planning.planner.tolerance) if self.splitting.auto else {}
        if split == table.split:
            return table, table
        cool = {key: channels for key, channels in table.split.items() if key not in split}
        homes = [channels[0] for channels in cool.values()]
        table = table.with_split({**split, **cool})
        settled = table.with_split(split)
        explicit = np.append(settled.explicit_hashes, np.array(list(cool), np.int64))
        return table, settled.with_explicit(explicit, np.append(settled.explicit_channels, homes))

    def _portion(self, moves: Moves, load: Statistics, slots: int) -> Moves:
        """Return the moves with the largest gain per byte that fit into one batch, one at the least."""
        key_cost, key_bytes = load.cost_and_state(moves.keys)
        _, slot_cost, slot_bytes = load.by_slot(slots)
        size = np.concatenate([slot_bytes[moves.slots], key_bytes])
        gain = np.concatenate([slot_cost[moves.slots], key_cost])
        order = np.argsort(-gain / np.maximum(size, 1.0), kind="stable")
        fits = np.cumsum(size[order]) <= self.planning.max_move_bytes
        fits[:1] = True
        chosen = np.zeros(len(size), bool)
        chosen[order[fits]] = True
        return moves.only(chosen[: len(moves.slots)], chosen[len(moves.slots) :])


def channel_loads(load: Statistics, table: RoutingTable) -> NDArray[np.float64]:
    """Return the cost of each channel under a table; split keys fill up what whole keys leave free.

    Examples
    --------
    >>> channel_loads(Statistics.of_keys([1, 2, 3], [5.0, 1.0, 1.0]), RoutingTable(2, [0, 1, 1, 0])).tolist()
    [1.0, 6.0]
    """
    split = np.isin(load.hashes, table.split_keys)
    loads = add_up(load.cost[~split], table.lookup(load.hashes[~split]), table.channels)
    loads += add_up(load.by_slot(len(table.slots))[1], table.slots, table.channels)
    for key, cost in zip(load.hashes[split].tolist(), load.cost[split].tolist(), strict=True):
        candidates = np.array(table.split[key])
        loads[candidates] = _filled(loads[candidates], cost)
    return loads


def _filled(levels: NDArray[np.float64], amount: float) -> NDArray[np.float64]:
    """Pour an amount over levels, the lowest first."""
    ordered = np.sort(levels)
    below = np.cumsum(ordered)
    for count in range(1, len(ordered) + 1):
        level = (below[count - 1] + amount) / count
        if count == len(ordered) or level <= ordered[count]:
            return np.asarray(np.maximum(levels, level))
    return levels


def tasks_for(loads: NDArray[np.float64], seconds: float | None, cores: int) -> NDArray[np.int32]:
    """Return the task that each channel runs in: as many tasks as the work is worth, evenly filled.

    Parameters
    ----------
    loads
        Cost of each channel.
    seconds
        How long the operator will work on all of it; None if that is not known.
    cores
        Tasks that can run at once.

    Examples
    --------
    >>> tasks_for(np.array([3.0, 1.0, 1.0, 3.0]), seconds=0.1, cores=4).tolist()
    [0, 0, 1, 1]
    >>> tasks_for(np.ones(3), seconds=0.001, cores=4).tolist(), tasks_for(np.ones(3), seconds=9.0, cores=2).tolist()
    ([0, 0, 0], [0, 1, 2])
    """
    channels = len(loads)
    tasks = min(channels, cores)
    if seconds is not None:
        worth = max(min(cores, math.ceil(seconds / SECONDS_PER_TASK)), math.ceil(seconds / MOST_SECONDS_PER_TASK))
        tasks = max(1, min(channels, worth))
    return np.arange(channels, dtype=np.int32) if tasks == channels else evenly(loads, tasks)


def evenly(loads: NDArray[np.float64], tasks: int) -> NDArray[np.int32]:
    """Return a task for each channel, the heaviest channel first and the emptiest task first."""
    task_of, filled, held = np.zeros(len(loads), np.int32), np.zeros(tasks), np.zeros(tasks)
    for channel in np.argsort(-loads, kind="stable"):
        task = np.lexsort((held, filled))[0]  # the emptiest, of equals the one with fewest channels
        task_of[channel] = task
        filled[task] += loads[channel]
        held[task] += 1
    return task_of


def _filled_up(planner: Planner, whole: Statistics, everything: Statistics) -> Planner:
    """Return the planner with the tolerance that whole keys have where split keys fill up what they leave free."""
    return with_tolerance(planner, (1 + planner.tolerance) * everything.total_cost / whole.total_cost - 1)
