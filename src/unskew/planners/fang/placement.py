"""Phases II and III of Fang's workflow: take keys off overloaded channels, place them with LLFD and Adjust."""

from __future__ import annotations

import heapq
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.fang.order import Column, Ids, Items, Order, Positions, _kernel_look

Rows = NDArray[np.int64]


class Board(NamedTuple):
    """Everything a placement reads and writes.

    Members of a channel come from two sources: residents, which are at home and the same in every trial, and entries
    of the routing table, which a trial may have sent home.

    Parameters
    ----------
    items
        What is placed.
    residents_by_cost, residents_by_rank, entries_by_cost, entries_by_rank
        Members of each channel in the two orders that matter.
    cost_at, rank_at
        Per source and channel, how far each order has been used up. The cost of placed items never rises, so neither
        pointer ever turns back.
    loads
        Cost per channel.
    eligible
        Per channel, cost of members that were neither taken nor passed by `cost_at`.
    taken
        Per item, copies that were taken from where they were.
    waiting
        Per item, copies that have no channel.
    touched
        Items of which a copy was taken; ``tally[TOUCHED]`` of them.
    tally
        Counters: items touched, copies forced, change of the table's size.
    migration
        Change of the state that moves, in a column of one.
    limit
        What a channel may hold.
    """

    items: Items
    residents_by_cost: Order
    residents_by_rank: Order
    entries_by_cost: Order
    entries_by_rank: Order
    cost_at: Positions
    rank_at: Positions
    loads: Column
    eligible: Column
    taken: Ids
    waiting: Ids
    touched: Ids
    tally: Positions
    migration: Column
    limit: float


TOUCHED, FORCED, TABLE = 0, 1, 2


@njit(cache=True)
def _kernel_head(board: Board, order: Order, source: int, channel: int, below: float) -> int:
    """Return the first member in rank order that is still there and costs less than `below`, or -1."""
    items, at = board.items, board.rank_at
    while True:
        x = _kernel_look(order, items, channel, at[source, channel])
        if x < 0 or items.cost[x] == 0.0:  # what costs nothing comes last and is never worth taking
            return -1
        if items.cost[x] < below and board.taken[x] < items.copies[x]:
            return x
        at[source, channel] += 1


@njit(cache=True)
def _kernel_first(board: Board, channel: int, below: float) -> int:
    """Return the first in rank order over both sources that costs less than `below`, or -1."""
    resident = _kernel_head(board, board.residents_by_rank, 0, channel, below)
    entry = _kernel_head(board, board.entries_by_rank, 1, channel, below)
    if resident < 0 or entry < 0:
        return max(resident, entry)
    a, b = board.residents_by_rank, board.entries_by_rank
    rank_a = a.values[a.start[channel] + board.rank_at[0, channel]]
    rank_b = b.values[b.start[channel] + board.rank_at[1, channel]]
    return resident if rank_a > rank_b or (rank_a == rank_b and resident < entry) else entry


@njit(cache=True)
def _kernel_take(board: Board, heap: Any, channel: int, guest_cost: float, below: float) -> None:
    """Take members that cost less than `below` in rank order until a guest of that cost fits, or none is left."""
    items, loads = board.items, board.loads
    excess = loads[channel] + guest_cost - board.limit
    while excess > 0.0:
        x = _kernel_first(board, channel, below)
        if x < 0:
            return
        cost, copies = items.cost[x], items.copies[x] - board.taken[x]
        if copies > 1:
            copies = int(min(float(copies), np.ceil(excess / cost)))
        if board.taken[x] == 0:
            board.touched[board.tally[TOUCHED]] = x
            board.tally[TOUCHED] += 1
        if board.waiting[x] == 0:
            heapq.heappush(heap, (-cost, x))
        board.taken[x] += copies
        board.waiting[x] += copies
        loads[channel] -= cost * copies
        board.eligible[channel] -= cost * copies
        if channel != items.home[x]:
            board.tally[TABLE] -= copies
        if channel != items.current[x]:
            board.migration[0] -= items.state[x] * copies
        excess = loads[channel] + guest_cost - board.limit


@njit(cache=True)
def _kernel_put(board: Board, guest: int, channel: int, copies: int) -> None:
    items = board.items
    board.loads[channel] += items.cost[guest] * copies
    if channel != items.home[guest]:
        board.tally[TABLE] += copies
    if channel != items.current[guest]:
        board.migration[0] += items.state[guest] * copies


@njit(cache=True)
def _kernel_pass(board: Board, order: Order, source: int, channel: int, below: float) -> None:
    """Subtract from `eligible` the members that cost `below` or more."""
    items = board.items
    while True:
        x = _kernel_look(order, items, channel, board.cost_at[source, channel])
        if x < 0 or items.cost[x] < below:
            return
        board.eligible[channel] -= items.cost[x] * (items.copies[x] - board.taken[x])
        board.cost_at[source, channel] += 1


@njit(cache=True)
def _kernel_can_make_room(board: Board, channel: int, cost: float) -> bool:
    """Tell whether taking all members that cost less than a guest would let it in: Adjust's condition (iii)."""
    excess = board.loads[channel] + cost - board.limit
    if excess > board.eligible[channel]:
        return False
    _kernel_pass(board, board.residents_by_cost, 0, channel, cost)
    _kernel_pass(board, board.entries_by_cost, 1, channel, cost)
    return bool(excess <= board.eligible[channel])


@njit(cache=True)
def _kernel_run(board: Board, least: int, cost: float, available: int) -> int:
    """Return how many copies the least loaded channel takes before it is full or another one is least loaded."""
    if available == 1:
        return 1
    loads = board.loads
    copies = min(float(available), np.floor((board.limit - loads[least]) / cost))
    for other in range(len(loads)):
        if other != least:
            steps = (loads[other] - loads[least]) / cost
            whole = np.floor(steps)
            copies = min(copies, whole if whole == steps and other < least else whole + 1)
    return max(1, int(copies))


@njit(cache=True)
def _kernel_accepting(board: Board, cost: float, tried: NDArray[np.bool_]) -> int:
    """Return the first channel, the least loaded first, that takes a guest of that cost; -1 if none does."""
    loads = board.loads
    tried[:] = False
    for _ in range(len(loads)):
        least = -1
        for channel in range(len(loads)):
            if not tried[channel] and (least < 0 or loads[channel] < loads[least]):
                least = channel
        if loads[least] + cost <= board.limit or _kernel_can_make_room(board, least, cost):
            return least
        tried[least] = True
    return -1


@njit(cache=True)
def _kernel_least(board: Board, guest: int) -> int:
    """Return a least loaded channel: the guest's current one, its home, or the first, in this order."""
    loads, lowest = board.loads, board.loads.min()
    if loads[board.items.current[guest]] == lowest:
        return int(board.items.current[guest])
    if loads[board.items.home[guest]] == lowest:
        return int(board.items.home[guest])
    return int(np.argmin(loads))


@njit(cache=True)
def _kernel_place(board: Board) -> Rows:
    """Take members off overloaded channels in rank order, then place what waits, the heaviest first.

    Returns one row (item, channel, copies) per placement, as columns.
    """
    channels = len(board.loads)
    heap = [(0.0, 0)]
    heap.pop()
    for channel in range(channels):
        _kernel_take(board, heap, channel, 0.0, np.inf)
    rows, n = np.empty((3, 256), np.int64), 0
    tried = np.empty(channels, np.bool_)
    while len(heap) > 0:
        guest = heapq.heappop(heap)[1]
        cost, left = board.items.cost[guest], board.waiting[guest]
        board.waiting[guest] = 0
        while left > 0:
            channel, copies = _kernel_accepting(board, cost, tried), 1
            if channel < 0:
                channel = _kernel_least(board, guest)
                board.tally[FORCED] += 1
            elif board.loads[channel] + cost <= board.limit:
                copies = _kernel_run(board, channel, cost, left)
            else:
                _kernel_take(board, heap, channel, cost, cost)
            _kernel_put(board, guest, channel, copies)
            if n == rows.shape[1]:
                grown = np.empty((3, 2 * n), np.int64)
                grown[:, :n] = rows
                rows = grown
            rows[0, n], rows[1, n], rows[2, n] = guest, channel, copies
            n += 1
            left -= copies
    return rows[:, :n].copy()
