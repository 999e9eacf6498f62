"""Phases II and III of Fang's workflow: take keys off overloaded channels, place them with LLFD and Adjust."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.fang.order import END, READY, START, Ids, Items, Order, Positions, _kernel_reach
from unskew.planners.problem import Column

Rows = NDArray[np.int64]


class Board(NamedTuple):
    """Everything a placement reads and writes.

    Members of channel c stand in segments c and N + c of both orders: first the residents, which are at home and the
    same in every trial, then the entries of the routing table, which a trial may have sent there.
    """

    items: Items
    by_cost: Order
    by_rank: Order
    loads: Column  # cost per channel
    eligible: Column  # per channel, cost of members that were not taken and are lighter than what was placed last
    taken: Ids  # per item, copies that were taken from where they were
    waiting: Ids  # per item, copies that have no channel
    touched: Ids  # items of which a copy was taken; tally[TOUCHED] of them
    tally: Positions  # counters: items touched, copies forced, change of the table's size
    migration: Column  # change of the state that moves, in a column of one
    limit: float  # what a channel may hold


TOUCHED, FORCED, TABLE = 0, 1, 2


@njit(cache=True)
def _kernel_place(board: Board) -> Rows:
    """Take members off overloaded channels in rank order, then place what waits, the heaviest first.

    Returns a column (item, channel, copies) for each placement. The cost of what is placed never rises, since what
    makes room is lighter than its guest. So both orders are walked in one direction only: a member that is too heavy to
    be taken stays so.
    """
    # arrays get names here, once: reading them out of the tuple inside the loops would count references every time
    items, by_cost, by_rank, loads, eligible, taken, waiting, touched, tally, migration, limit = board
    cost, state, current, home, copies_of = items
    cost_ids, _, cost_marks, _ = by_cost
    rank_ids, rank_values, rank_marks, _ = by_rank
    channels = len(loads)
    cost_at, rank_at = np.zeros(2 * channels, np.int64), np.zeros(2 * channels, np.int64)
    tried = np.zeros(channels, np.bool_)
    heap: list[Any] = [(0.0, 0)]
    heap.pop()

    def head(segment: int, below: float) -> int:
        """Return where the first member in rank order stands that is still there and lighter than `below`, or -1."""
        found = -1
        while found < 0:
            position = rank_at[segment]
            at = rank_marks[segment, START] + position
            if at >= rank_marks[segment, END]:
                break
            if rank_marks[segment, READY] <= position:
                _kernel_reach(by_rank, cost, state, segment, position)
            x = rank_ids[at]
            if cost[x] == 0.0:  # what costs nothing comes last and is never worth taking
                break
            if cost[x] < below and taken[x] < copies_of[x]:
                found = at
            else:
                rank_at[segment] += 1
        return found

    def first(channel: int, below: float) -> int:
        """Return the first member of either kind in rank order that is lighter than `below`, or -1."""
        a, b = head(channel, below), head(channels + channel, below)
        if a >= 0 and b >= 0:
            rank_a, rank_b = rank_values[a], rank_values[b]
            at = a if rank_a > rank_b or (rank_a == rank_b and rank_ids[a] < rank_ids[b]) else b
        else:
            at = max(a, b)
        return rank_ids[at] if at >= 0 else -1

    def shift(x: int, channel: int, copies: int) -> None:
        """Add copies of an item to a channel, or take them away if there are fewer than none."""
        loads[channel] += cost[x] * copies
        if channel != home[x]:
            tally[TABLE] += copies
        if channel != current[x]:
            migration[0] += state[x] * copies

    def take(channel: int, guest_cost: float, below: float) -> None:
        """Take members lighter than `below` in rank order until a guest fits in, or none is left."""
        excess = loads[channel] + guest_cost - limit
        while excess > 0.0:
            x = first(channel, below)
            if x < 0:
                break
            copies = copies_of[x] - taken[x]
            if copies > 1:
                copies = int(min(float(copies), np.ceil(excess / cost[x])))
            if taken[x] == 0:
                touched[tally[TOUCHED]] = x
                tally[TOUCHED] += 1
            if waiting[x] == 0:
                heapq.heappush(heap, (-cost[x], np.int64(x)))
            taken[x] += copies
            waiting[x] += copies
            eligible[channel] -= cost[x] * copies
            shift(x, channel, -copies)
            excess = loads[channel] + guest_cost - limit

    def disregard(segment: int, channel: int, below: float) -> None:
        """Strike members that cost `below` or more off the channel's eligible cost."""
        while True:
            position = cost_at[segment]
            at = cost_marks[segment, START] + position
            if at >= cost_marks[segment, END]:
                break
            if cost_marks[segment, READY] <= position:
                _kernel_reach(by_cost, cost, state, segment, position)
            x = cost_ids[at]
            if cost[x] < below:
                break
            eligible[channel] -= cost[x] * (copies_of[x] - taken[x])
            cost_at[segment] += 1

    def accepting(guest_cost: float) -> int:
        """Return the channel, tried from the least loaded on, that takes a guest, or -1: Adjust's condition (iii)."""
        tried[:] = False
        found = -1
        for _ in range(channels):
            least = -1
            for channel in range(channels):
                if not tried[channel] and (least < 0 or loads[channel] < loads[least]):
                    least = channel
            excess = loads[least] + guest_cost - limit
            if 0.0 < excess <= eligible[least]:
                disregard(least, least, guest_cost)
                disregard(channels + least, least, guest_cost)
            if excess <= 0.0 or excess <= eligible[least]:
                found = least
                break
            tried[least] = True
        return found

    for channel in range(channels):
        take(channel, 0.0, np.inf)
    rows, n = np.empty((3, 256), np.int64), 0
    while len(heap) > 0:
        guest = heapq.heappop(heap)[1]
        left = waiting[guest]
        waiting[guest] = 0
        while left > 0:
            channel, copies = accepting(cost[guest]), 1
            if channel < 0:
                channel = _kernel_least(loads, current[guest], home[guest])
                tally[FORCED] += 1
            elif loads[channel] + cost[guest] <= limit:
                copies = _kernel_run(loads, channel, cost[guest], left, limit)
            else:
                take(channel, cost[guest], cost[guest])
            shift(guest, channel, copies)
            if n == rows.shape[1]:
                rows = np.concatenate((rows, np.empty_like(rows)), axis=1)
            rows[0, n], rows[1, n], rows[2, n] = guest, channel, copies
            n += 1
            left -= copies
    return rows[:, :n]


@njit(cache=True)
def _kernel_run(loads: Column, least: int, cost: float, available: int, limit: float) -> int:
    """Return how many copies the least loaded channel takes before it is full or another one is least loaded."""
    if available == 1:
        return 1
    copies = min(float(available), np.floor((limit - loads[least]) / cost))
    for other in range(len(loads)):
        if other != least:
            steps = (loads[other] - loads[least]) / cost
            whole = np.floor(steps)
            copies = min(copies, whole if whole == steps and other < least else whole + 1)
    return max(1, int(copies))


@njit(cache=True)
def _kernel_least(loads: Column, current: int, home: int) -> int:
    """Return a least loaded channel: the current one, the home, or the first, in this order."""
    least = int(np.argmin(loads))
    if loads[current] == loads[least]:
        return current
    return home if loads[home] == loads[least] else least
