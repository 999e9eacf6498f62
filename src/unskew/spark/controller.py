"""The controller: from one batch's decision and reports to the next batch's decision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, add_up, combine
from unskew.planners.base import Planner
from unskew.planners.report import Report
from unskew.routing.moves import Moves
from unskew.routing.steps import step_towards
from unskew.routing.table import RoutingTable
from unskew.spark.decision import Decision
from unskew.spark.packing import pack
from unskew.spark.reports import ChannelReport
from unskew.spark.tuple_routes import Head
from unskew.splitters.base import Splitter
from unskew.splitters.heavy import HeavyKeys
from unskew.splitters.hot_keys import hot_keys

KeepState = Callable[[int, bytes], str]
"""Stores moved state for a channel durably and returns its file; called from several threads at once."""


@dataclass(frozen=True)
class Controller:
    """Decides, batch after batch, from what the channels reported.

    A pure function but for storing moved state: a batch that ends again with the same reports is decided alike.
    A move takes two batches and holds no row back: the old owner extracts the state at the end of batch n, the new
    owner installs it before the rows of batch n+1, which is also the first that is routed to it. What a channel was
    told and did not report as done is told again. The next plan is made as soon as all state has left and what came
    before is installed: a channel installs before it extracts, so state that has just come may go on.

    Parameters
    ----------
    planner
        Who plans.
    interval_batches, interval_ms
        Batches and time between two plans at least.
    max_move_bytes
        State that may move in one batch; a larger migration spreads over several, largest gain per byte first.
    min_gain
        A plan is carried out only if it makes the fullest channel lighter by this share of the mean; planners that
        do not go by the measured cost decide by themselves.
    splitting
        Whether keys that no channel can carry alone are shared by all of them; for operators that can merge. Their
        tuples fill up what whole keys leave free, so whole keys move only where they alone are too much.
    scheme
        A splitting scheme that routes all rows; then nothing is planned but another number of channels.
    """

    planner: Planner
    interval_batches: int = 1
    max_move_bytes: int = 64 << 20
    min_gain: float = 0.02
    interval_ms: int = 0
    splitting: bool = False
    scheme: Splitter | None = None

    def next_decision(
        self,
        last: Decision,
        reports: Mapping[int, ChannelReport],
        keep: KeepState,
        *,
        now_ms: int = 0,
        channels: int | None = None,
        memory_bytes: tuple[int, ...] = (),
    ) -> tuple[Decision, Report | None]:
        """Return the decision for the batch after `last`, and the report of a plan if one was made.

        Another number of `channels` is planned for at once, unless a migration is still on its way. `memory_bytes` is
        what each channel may hold of its state.
        """
        waiting = _not_installed(last, reports)
        all_installed = not waiting
        done = _done(last.extract, reports)
        for channel, file in _kept(_parcels(done, reports), keep).items():
            waiting[channel] = (*waiting.get(channel, ()), file)
        decision = Decision(
            batch_id=last.batch_id + 1,
            table=last.table,
            target=last.target,
            install=waiting,
            batches_since_plan=last.batches_since_plan + 1,
            planned_at_ms=last.planned_at_ms,
            memory=last.memory,
            previous_watermark_ms=_watermark(reports, last.previous_watermark_ms),
            memory_bytes=memory_bytes,
        )
        statistics = replace(combine([report.statistics for report in reports.values()]), use=_use(reports, last))
        if isinstance(self.scheme, HeavyKeys):
            head = Head.of(statistics, self.scheme.threshold_for(last.table.channels))
            decision = replace(decision, head=head)
        if last.target is not None:
            decision = self._continue(decision, last.target, done, statistics)
        if decision.target is None and channels not in (None, decision.table.channels):
            return self._resize(replace(decision, planned_at_ms=now_ms), statistics, channels)
        if decision.target is not None or not all_installed:
            return decision, None
        if last.target is not None or waiting:  # how busy channels were, they were under the table before
            if not self.planner.for_balance:
                return decision, None
            statistics = replace(statistics, use=None)
        if self.scheme is not None or decision.batches_since_plan < self.interval_batches:
            return decision, None
        if now_ms - last.planned_at_ms < self.interval_ms:
            return decision, None
        return self._plan(replace(decision, planned_at_ms=now_ms), statistics)

    def _continue(self, decision: Decision, target: RoutingTable, done: Moves, statistics: Statistics) -> Decision:
        table = decision.table
        if len(done):
            table = step_towards(table, target, done, table.version + 1)
        table, target = self._split_more(table, target, statistics)
        left = table.moves_to(target)
        if not len(left):
            return replace(decision, table=table, target=None)
        return replace(decision, table=table, target=target, extract=self._portion(left, statistics, len(table.slots)))

    def _plan(self, decision: Decision, statistics: Statistics) -> tuple[Decision, Report | None]:
        if statistics.total_cost <= 0:
            return decision, None
        table, settled = self._split(decision.table, statistics)
        whole = statistics.without(settled.split_keys)
        decision = replace(decision, table=table, batches_since_plan=0)
        target, report = settled, None
        if whole.total_cost > 0:
            planner = within_reach(_filled_up(self.planner, whole, statistics), whole, settled)
            plan = planner.plan(whole, settled, memory=decision.memory)
            decision, report = replace(decision, memory=plan.memory), plan.report
            gain = report.imbalance_before - report.imbalance_after
            if len(plan.moves) and (not planner.for_balance or gain >= self.min_gain):
                target = plan.table
        moves = table.moves_to(target)
        if not len(moves):
            return decision, report
        return replace(decision, target=target, extract=self._portion(moves, statistics, len(table.slots))), report

    def _split(self, table: RoutingTable, statistics: Statistics) -> tuple[RoutingTable, RoutingTable]:
        """Return the table with more keys split, which takes no move, and the one where cool keys are whole again."""
        split = hot_keys(statistics, table, self.planner.tolerance) if self.splitting else {}
        if split == table.split:
            return table, table
        cool = {key: channels for key, channels in table.split.items() if key not in split}
        homes = [channels[0] for channels in cool.values()]
        table = table.with_split({**split, **cool})
        settled = table.with_split(split)
        explicit = np.append(settled.explicit_hashes, np.array(list(cool), np.int64))
        return table, settled.with_explicit(explicit, np.append(settled.explicit_channels, homes))

    def _split_more(
        self, table: RoutingTable, target: RoutingTable, statistics: Statistics
    ) -> tuple[RoutingTable, RoutingTable]:
        """Split keys that became too hot while a migration is on its way, in both its tables: that takes no move."""
        if not self.splitting or statistics.total_cost <= 0:
            return table, target
        known, common = {*table.split, *target.split}, min(table.channels, target.channels)
        hot = {
            key: tuple(channel for channel in channels if channel < common)
            for key, channels in hot_keys(statistics, table, self.planner.tolerance).items()
            if key not in known and channels[0] < common
        }
        if common == 1 or not hot:
            return table, target
        return table.with_split({**table.split, **hot}), target.with_split({**target.split, **hot})

    def _resize(self, decision: Decision, statistics: Statistics, channels: int) -> tuple[Decision, Report]:
        whole = statistics.without(decision.table.split_keys)
        plan = self.planner.plan(whole, decision.table, channels=channels, memory=decision.memory)
        extract = self._portion(plan.moves, statistics, len(plan.table.slots))
        decision = replace(decision, batches_since_plan=0, memory=plan.memory, target=plan.table, extract=extract)
        return decision, plan.report

    def _portion(self, moves: Moves, statistics: Statistics, slots: int) -> Moves:
        """Return the moves with the largest gain per byte that fit into one batch, one at the least."""
        key_cost, key_bytes = statistics.cost_and_state(moves.keys)
        _, slot_cost, slot_bytes = statistics.by_slot(slots)
        size = np.concatenate([slot_bytes[moves.slots], key_bytes])
        gain = np.concatenate([slot_cost[moves.slots], key_cost])
        order = np.argsort(-gain / np.maximum(size, 1.0), kind="stable")
        fits = np.cumsum(size[order]) <= self.max_move_bytes
        fits[:1] = True
        chosen = np.zeros(len(size), bool)
        chosen[order[fits]] = True
        return moves.only(chosen[: len(moves.slots)], chosen[len(moves.slots) :])


def within_reach(planner: Planner, statistics: Statistics, table: RoutingTable) -> Planner:
    """Return the planner with a tolerance that one owner per key can keep to.

    Where a key alone exceeds what a channel may have, no assignment is within the tolerance, and Fang's algorithms put
    the key on top of what some channel has, as their last resort. The best there is gives it a channel of its own,
    with what must stay there; others may then have as much.

    Examples
    --------
    >>> from unskew.planners import planner
    >>> loads = Statistics.of_keys([1, 2, 3, 4], [50.0, 10.0, 10.0, 10.0])
    >>> within_reach(planner("mixed"), loads, RoutingTable.initial(4, 16)).tolerance
    1.5
    """
    rest = np.zeros(table.channels)
    if len(statistics.slot_cost) == len(table.slots):
        rest = add_up(statistics.slot_cost, table.slots, table.channels)
    heaviest = statistics.cost.max(initial=0.0) + rest.min()
    reachable = float(heaviest / (statistics.total_cost / table.channels)) - 1.0
    if reachable <= planner.tolerance:
        return planner
    return _with_tolerance(planner, reachable)


def _filled_up(planner: Planner, whole: Statistics, everything: Statistics) -> Planner:
    """Return the planner with the tolerance that whole keys have where split keys fill up what they leave free."""
    return _with_tolerance(planner, (1 + planner.tolerance) * everything.total_cost / whole.total_cost - 1)


def _with_tolerance(planner: Planner, tolerance: float) -> Planner:
    if tolerance == planner.tolerance:
        return planner
    changed = copy.copy(planner)
    object.__setattr__(changed, "tolerance", tolerance)  # planners are frozen
    return changed


def _use(reports: Mapping[int, ChannelReport], last: Decision) -> ChannelUse | None:
    """Return how long each channel waited for the slowest, and whose memory did not suffice.

    A batch is over when its slowest channel is done.
    """
    channels = last.table.channels
    busy = np.array([reports[c].seconds if c in reports else 0.0 for c in range(channels)])
    longest = float(busy.max())
    if longest <= 0:
        return None
    if not last.memory_bytes:
        return ChannelUse(longest, idle_seconds=longest - busy)
    spilled = np.zeros(len(last.table.slots), np.bool_)
    for report in reports.values():
        spilled[list(report.spilled_slots)] = True
    memory = np.array(last.memory_bytes[:channels], np.float64)
    return ChannelUse(longest, idle_seconds=longest - busy, memory_bytes=memory, spilled=spilled)


def _watermark(reports: Mapping[int, ChannelReport], before: int | None) -> int | None:
    """Return the watermark that the batch had, the one before if no channel was called."""
    return next((r.watermark_ms for r in reports.values() if r.watermark_ms is not None), before)


def _not_installed(last: Decision, reports: Mapping[int, ChannelReport]) -> dict[int, tuple[str, ...]]:
    """Return the files that their channels have not reported as installed."""
    left = {
        channel: tuple(f for f in files if channel not in reports or f not in reports[channel].installed)
        for channel, files in last.install.items()
    }
    return {channel: files for channel, files in left.items() if files}


def _done(extract: Moves, reports: Mapping[int, ChannelReport]) -> Moves:
    """Return the moves whose old owner has extracted."""
    slots, keys = (
        [s in reports and t in reports[s].extracted for s, t in zip(sources.tolist(), targets.tolist(), strict=True)]
        for sources, targets in (
            (extract.slot_sources, extract.slot_targets),
            (extract.key_sources, extract.key_targets),
        )
    )
    return extract.only(slots, keys)


def _parcels(done: Moves, reports: Mapping[int, ChannelReport]) -> dict[int, pa.Table]:
    """Return the extracted state by the channel it goes to; channels that get nothing are left out."""
    routes = {*zip(done.slot_sources.tolist(), done.slot_targets.tolist(), strict=True)}
    routes |= {*zip(done.key_sources.tolist(), done.key_targets.tolist(), strict=True)}
    parcels: dict[int, list[pa.Table]] = {}
    for source, target in sorted(routes):
        state = reports[source].extracted[target]
        if state.num_rows:
            parcels.setdefault(target, []).append(state)
    return {target: pa.concat_tables(states) for target, states in parcels.items()}


def _kept(parcels: Mapping[int, pa.Table], keep: KeepState) -> dict[int, str]:
    """Store the parcels side by side, because a filesystem takes its time for each; return their files."""
    if not parcels:
        return {}
    with ThreadPoolExecutor(len(parcels)) as writers:
        return dict(zip(parcels, writers.map(keep, parcels, map(pack, parcels.values())), strict=True))
