"""Trials of Fang's three phases on one set of keys or records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.fang.order import Ids, Items, Order, Positions, _kernel_group
from unskew.planners.fang.placement import FORCED, TABLE, TOUCHED, Board, Rows, _kernel_place
from unskew.planners.fang.records import Records
from unskew.planners.problem import Column

SLACK = 1e-9  # comparisons of loads forgive this share of the mean


@dataclass(frozen=True, eq=False)
class Trial:
    """What one run of the three phases gave."""

    cleaned: int  # keys of the table that phase I sent home, n in Fang et al.
    placements: Rows  # columns item, channel, copies that phase III placed; all else stayed where phase I left it
    loads: Column  # cost per channel
    table_size: int  # keys away from home
    migration_cost: float  # state of keys whose owner changes
    forced: int  # keys placed although no channel could take them within the tolerance
    by_cost: bool = False  # whether keys were ranked by cost, and not by migration priority


class Balancer:
    """Runs trials: each starts from the owners in force, sends some entries of the table home and places the rest.

    `current` of an item must be a channel that stays, and the background is cost per channel that cannot move. What
    trials have in common is worked out once and lazily: members of each channel, and their orders as far as some trial
    looked. A trial undoes its traces item by item, so it costs what it touches and not what there is.

    Items that stand for several keys have to be `twinned`: those away from home come in pairs, one for the copies that
    stay and then one, with no copies yet, for the copies that a trial sends home.
    """

    def __init__(
        self, items: Items, background: Column, tolerance: float, exponent: float, *, twinned: bool = False
    ) -> None:
        self.items, self.twinned, self._exponent = items, twinned, exponent
        self._resident_cost, entry_cost = _kernel_loads(items, len(background))
        self._background = background
        self.loads = background + self._resident_cost + entry_cost
        self.mean_load = float(self.loads.sum()) / len(background)
        self.limit = (1 + tolerance + SLACK) * self.mean_load
        self._taken, self._waiting = np.zeros((2, len(items.cost)), np.int32)
        self._touched = np.empty(len(items.cost), np.int32)

    @property
    def overloaded(self) -> bool:
        """Whether some channel holds more than the tolerance allows."""
        return bool(self.loads.max() > self.limit)

    @cached_property
    def _entries(self) -> Ids:
        """Items away from home, the first of each pair of twins."""
        away = np.flatnonzero(self.items.current != self.items.home).astype(np.int32)
        return away[::2] if self.twinned else away

    @cached_property
    def _entry_copies(self) -> Ids:
        return self.items.copies[self._entries]

    @cached_property
    def _copies_before(self) -> Positions:
        """Per entry, copies that phase I sends home before its own: those with the least state go first."""
        order = np.argsort(self.items.state[self._entries], kind="stable")
        before = np.empty(len(order), np.int64)
        before[order] = np.cumsum(self._entry_copies[order]) - self._entry_copies[order]
        return before

    @cached_property
    def table_size(self) -> int:
        """Keys away from home under the owners in force."""
        return int(self._entry_copies.sum())

    def trial(self, cleaned: int, *, by_cost: bool = False) -> Trial:
        """Run the three phases after sending the first `cleaned` keys of the table home.

        Members are taken by descending migration priority, or with `by_cost` by descending cost.
        """
        items, channels, (ids, seats) = self.items, len(self.loads), self._seat_entries(cleaned)
        members = self._resident_cost + np.bincount(seats, items.cost[ids] * items.copies[ids], channels)
        grouped = _kernel_group(ids, seats, channels)
        by_rank = self._by_cost if by_cost else self._by_priority
        for order in (self._by_cost, by_rank):
            order.put(channels, *grouped, len(self._residents[0]))
        scratch = (self._taken, self._waiting, self._touched, np.zeros(3, np.int64), np.zeros(1))
        board = Board(items, self._by_cost, by_rank, self._background + members, members, *scratch, self.limit)
        placements = _kernel_place(board)
        self._taken[self._touched[: board.tally[TOUCHED]]] = 0
        went_home = seats != items.current[ids]
        size = self.table_size - cleaned + int(board.tally[TABLE])
        migration = float(board.migration[0] + (items.state[ids] * items.copies[ids])[went_home].sum())
        return Trial(cleaned, placements, board.loads, size, migration, int(board.tally[FORCED]), by_cost)

    def owner(self, trial: Trial) -> NDArray[np.int32]:
        """Return the owner of every item after `trial`, where an item stands for one key."""
        result = self.items.current.copy()
        ids, seats = self._seat_entries(trial.cleaned)
        result[ids] = seats
        item, channel, _ = trial.placements
        result[item] = channel
        return result

    def _seat_entries(self, cleaned: int) -> tuple[Ids, Ids]:
        """Return the items of the table, by ascending id, and where phase I puts them."""
        items, entries, copies = self.items, self._entries, self._entry_copies
        current, home = items.current[entries], items.home[entries]
        sent = np.clip(cleaned - self._copies_before, 0, copies) if cleaned else np.zeros_like(copies)
        if not self.twinned:
            return entries, np.where(sent > 0, home, current)
        items.copies[entries], items.copies[entries + 1] = copies - sent, sent
        return np.stack([entries, entries + 1], 1).ravel(), np.stack([current, home], 1).ravel()

    @cached_property
    def _residents(self) -> tuple[Ids, Positions]:
        return _kernel_residents(self.items, len(self.loads))

    @cached_property
    def _by_cost(self) -> Order:
        return self._order(np.nan)

    @cached_property
    def _by_priority(self) -> Order:
        return self._order(self._exponent)

    def _order(self, exponent: float) -> Order:
        """Return an order of the residents, with room for the entries."""
        order = Order.of_size(len(self.items.cost), 2 * len(self.loads), exponent)
        order.put(0, *self._residents, 0)
        return order


@dataclass(frozen=True, eq=False)
class RecordPlan:
    """What a planner made of compact records."""

    records: Records  # with their next owners; a record whose keys part is split into several
    source: NDArray[np.int64]  # for each of them, the row of the records as reported
    loads: Column  # estimated cost per channel, background included
    forced: int = 0
    notes: tuple[str, ...] = ()
    by_cost: bool = False  # whether keys rank by cost, and not by priority; decides which keys of a record move


class RecordBalancer(Balancer):
    """A balancer of records: the copies of one are alike, and the phases take as many as they need."""

    def __init__(self, records: Records, background: Column, tolerance: float, exponent: float) -> None:
        current = np.where(records.current < len(background), records.current, records.home).astype(np.int32)
        self.records, self._current = records, current
        self.record_of = np.repeat(np.arange(len(records)), 1 + (current != records.home))
        copies = records.copies[self.record_of]
        copies[np.flatnonzero(np.diff(self.record_of, prepend=-1) == 0)] = 0  # twins: copies that a trial sends home
        cost, state, home = (column[self.record_of] for column in (records.cost, records.state, records.home))
        items = Items.of(cost, state, current[self.record_of], home, copies)
        super().__init__(items, background, tolerance, exponent, twinned=True)

    def plan(self, trial: Trial, notes: tuple[str, ...]) -> RecordPlan:
        """Return the plan that follows `trial`."""
        ids, seats = self._seat_entries(trial.cleaned)
        seat = self.items.current.copy()
        seat[ids] = seats
        placed, channel, copies = trial.placements
        stayed = self.items.copies - np.bincount(placed, copies, len(seat)).astype(np.int64)
        stay = np.flatnonzero(stayed)
        item, channel = np.append(stay, placed), np.append(seat[stay], channel)
        channels = len(self.loads)
        pairs, where = np.unique(self.record_of[item] * channels + channel, return_inverse=True)
        source, target = pairs // channels, (pairs % channels).astype(np.int32)
        counted = np.bincount(where, np.append(stayed[stay], copies), len(pairs)).astype(np.int64)
        records = replace(self.records.take(source), next=target, copies=counted)
        return RecordPlan(records, source, trial.loads, trial.forced, notes, trial.by_cost)

    def keep(self) -> RecordPlan:
        """Return the plan that leaves everything where it is; keys of a channel that leaves go home."""
        return RecordPlan(replace(self.records, next=self._current), np.arange(len(self.records)), self.loads)


@njit(cache=True)
def _kernel_loads(items: Items, channels: int) -> tuple[Column, Column]:
    """Return the cost per channel of items at home and of items away from home."""
    at_home, away = np.zeros(channels), np.zeros(channels)
    for x in range(len(items.cost)):
        channel = items.current[x]
        if channel == items.home[x]:
            at_home[channel] += items.cost[x] * items.copies[x]
        else:
            away[channel] += items.cost[x] * items.copies[x]
    return at_home, away


@njit(cache=True)
def _kernel_residents(items: Items, channels: int) -> tuple[Ids, Positions]:
    """Group the items that are at home by channel; three times as fast as a mask and `_kernel_group`."""
    start = np.zeros(channels + 1, np.int64)
    for x in range(len(items.cost)):
        if items.current[x] == items.home[x]:
            start[items.current[x] + 1] += 1
    for channel in range(channels):
        start[channel + 1] += start[channel]
    free = start.copy()
    grouped = np.empty(start[channels], np.int32)
    for x in range(len(items.cost)):
        channel = items.current[x]
        if channel == items.home[x]:
            grouped[free[channel]] = x
            free[channel] += 1
    return grouped, start
