"""Readj: start from where the keys are and improve by single moves and swaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import Channels, Column, Items, beats
from unskew.planners.gedik.shifting import (
    COST,
    LEAST,
    LOAD,
    MOST,
    NO_GAIN,
    SHARE,
    Matrix,
    Now,
    Numbers,
    cost_of_leaving,
    describe_pairs,
    gains_of_shifts,
    least_penalty,
    list_by_channel,
    measure,
    note_costs,
)
from unskew.planners.gedik.utility import utility

Flags = NDArray[np.bool_]
Pairs = NDArray[np.float64]


@dataclass(frozen=True)
class Readj(GedikPlanner):
    """Moves a hot key to another channel, or swaps two, as long as that makes the balance better.

    Each step takes, among all moves and swaps that lower the balance penalty, the one with the greatest gain in
    utility per share of the tuples shifted. Ends because the balance penalty falls with each step. A step costs at
    most O(R^2) for R hot keys; only pairs of channels of which one is the fullest or the emptiest are looked at.

    Parameters
    ----------
    require_positive_gain
        Take only steps that improve the utility, and not every one that improves the balance. Migrates less,
        balances worse.
    max_moves_per_item
        How often one key may be moved while the table is built.

    References
    ----------
    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.4, Algorithm 4.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> shares, current = [1, 1, 4, 2, 3, 5, 3, 3], [1, 1, 1, 0, 1, 0, 1, 0]
    >>> problem = Problem.of_keys(shares, channels=3, current=current, home=current)
    >>> Readj(balance_ratio=1.2).assign(problem, Memory()).owner.tolist()
    [1, 2, 2, 2, 1, 0, 1, 0]
    """

    name: ClassVar[str] = "readj"
    summary: ClassVar[str] = "Gedik: from the table in force, by single moves and swaps of hot keys"

    require_positive_gain: bool = False
    max_moves_per_item: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_moves_per_item < 1:
            raise ArgumentError("a key must be allowed one move at least", got=self.max_moves_per_item)

    def place(self, items: Items) -> Channels:
        """Return the channel of each item."""
        owner = np.where(items.current < items.channels, items.current, items.home).astype(np.int32)
        _kernel_readj(items, owner, self.utility_kind, self.require_positive_gain, self.max_moves_per_item)
        return owner


@njit(cache=True)
def _kernel_readj(items: Items, owner: Channels, kind: int, positive_only: bool, max_moves: int) -> int:
    """Improve `owner` in place; return the number of steps."""
    count, channels, rows = len(owner), items.channels, items.load.shape[0]
    loads, gaps, units = np.empty((rows, channels)), np.empty(rows), np.empty(rows)
    pairs, useful = np.empty((channels, channels, rows, 7)), np.empty((channels, channels), np.bool_)
    members, starts, crowd = (
        np.empty(count, np.int64),
        np.empty(channels + 1, np.int64),
        np.empty((LOAD + rows, count + 1)),
    )
    gains, by_move, by_swap, moves = np.empty(count), np.empty(count), np.empty(count), np.zeros(count, np.int64)
    migration, steps = items.migration, 0
    for item in range(count):
        if owner[item] != items.current[item]:
            migration += items.state[item]
    while True:
        penalty = measure(items, owner, loads, gaps, units)
        migration_penalty = migration / items.ideal_migration
        before = utility(kind, penalty, migration_penalty)
        now = Now(kind, items.multiplicity.sum(), penalty, migration_penalty, before)
        describe_pairs(loads, gaps, units, pairs, useful)
        list_by_channel(items, owner, moves < max_moves, members, starts, crowd)
        best = _try_moves(items, now, pairs, useful, members, starts, crowd, gains, by_move)
        best = _try_swaps(items, now, pairs, useful, members, starts, crowd, best, gains, by_swap)
        if best == NO_GAIN or (positive_only and not beats(-best, 0.0)):
            return steps
        d1, d2, target = _first_of_the_best(
            items, now, owner, pairs, useful, members, starts, crowd, best, gains, by_move, by_swap
        )
        migration += cost_of_leaving(d1, owner[d1], target, items.state, items.current)
        if d2 >= 0:
            migration += cost_of_leaving(d2, target, owner[d1], items.state, items.current)
            owner[d2] = owner[d1]
            moves[d2] += 1
        owner[d1] = target
        moves[d1] += 1
        steps += 1


@njit(cache=True)
def _try_moves(
    items: Items,
    now: Now,
    pairs: Pairs,
    useful: Flags,
    members: Numbers,
    starts: Numbers,
    crowd: Matrix,
    gains: Column,
    by_move: Column,
) -> float:
    """Write the best gain of each item by a move; return the best of all. A move is a swap with nobody."""
    by_move[:] = NO_GAIN
    multiplicity, nobody, best = items.multiplicity, crowd.shape[1] - 1, NO_GAIN
    for i in range(items.channels):
        for j in range(items.channels):
            if not useful[i, j]:
                continue
            start, end = _partners_in_reach(pairs[j, i], crowd, nobody, starts[i], starts[i + 1])
            if start < end:
                note_costs(items, members, starts, i, j, crowd)
                best = max(best, gains_of_shifts(now, pairs[j, i], multiplicity, crowd, nobody, start, end, gains))
                for place in range(start, end):
                    by_move[members[place]] = max(by_move[members[place]], gains[place])
    return best


@njit(cache=True)
def _partners_in_reach(pair: Matrix, crowd: Matrix, goer: int, start: int, end: int) -> tuple[int, int]:
    """Return the part of the columns from `start` to `end` that can make a useful shift with the goer."""
    first, last = end, start
    for k in range(pair.shape[0]):
        least, most, load = pair[k, LEAST], pair[k, MOST], crowd[LOAD + k, goer]
        if least < most:
            low, high = start, end
            while low < high and load - crowd[LOAD + k, low] <= least:
                low += 1
            while low < high and load - crowd[LOAD + k, high - 1] >= most:
                high -= 1
            if low < high:
                first, last = min(first, low), max(last, high)
    return first, last


@njit(cache=True)
def _try_swaps(
    items: Items,
    now: Now,
    pairs: Pairs,
    useful: Flags,
    members: Numbers,
    starts: Numbers,
    crowd: Matrix,
    best: float,
    gains: Column,
    by_swap: Column,
) -> float:
    """Write the best gain of each item by a swap with one on a higher channel, if it comes near the best of all.

    Returns the best gain of all, `best` included. The most promising pair of channels goes first.
    """
    by_swap[:] = NO_GAIN
    first, second, lowest = 0, 0, np.inf
    for i in range(items.channels):
        for j in range(i + 1, items.channels):
            if useful[i, j]:
                penalty = least_penalty(pairs[i, j], items.multiplicity)
                if penalty < lowest:
                    first, second, lowest = i, j, penalty
    if first < second:
        best = _try_pair(items, now, first, second, pairs[first, second], members, starts, crowd, best, gains, by_swap)
    for i in range(items.channels):
        for j in range(i + 1, items.channels):
            if useful[i, j] and not (i == first and j == second):
                best = _try_pair(items, now, i, j, pairs[i, j], members, starts, crowd, best, gains, by_swap)
    return best


@njit(cache=True)
def _try_pair(
    items: Items,
    now: Now,
    i: int,
    j: int,
    pair: Matrix,
    members: Numbers,
    starts: Numbers,
    crowd: Matrix,
    best: float,
    gains: Column,
    by_swap: Column,
) -> float:
    """Do the work of `_try_swaps` for two channels.

    Useful shifts lie between two bounds, and the items of a channel are sorted by weight: the partners in question for
    an item follow each other, and begin no earlier than those of the item before. Of these, only partners of about
    the same share can reach the best gain known, which is per share shifted.
    """
    note_costs(items, members, starts, i, j, crowd)
    note_costs(items, members, starts, j, i, crowd)
    multiplicity, rows = items.multiplicity, items.load.shape[0]
    begin, finish = starts[j], starts[j + 1]
    if begin == finish:
        return best
    lows, highs = np.full(rows, begin), np.full(rows, begin)
    least_cost, penalty = crowd[COST, begin:finish].min(), least_penalty(pair, multiplicity)
    for place in range(starts[i], starts[i + 1]):
        start, end = finish, begin
        for k in range(rows):
            least, most, load = pair[k, LEAST], pair[k, MOST], crowd[LOAD + k, place]
            if least < most:
                while lows[k] < finish and load - crowd[LOAD + k, lows[k]] <= least:
                    lows[k] += 1
                while highs[k] < finish and load - crowd[LOAD + k, highs[k]] < most:
                    highs[k] += 1
                start, end = min(start, lows[k]), max(end, highs[k])
        to_reach = best - 1e-9 * max(1.0, abs(best))
        if start < end and to_reach > 0.0:
            migration_penalty = now.migration_penalty + crowd[COST, place] + least_cost
            reach = (now.utility - utility(now.kind, penalty, migration_penalty)) / to_reach
            share = crowd[SHARE, place]
            while start < end and abs(share - crowd[SHARE, start]) > reach:
                start += 1
            while start < end and abs(share - crowd[SHARE, end - 1]) > reach:
                end -= 1
        if start < end:
            gain = gains_of_shifts(now, pair, multiplicity, crowd, place, start, end, gains)
            by_swap[members[place]] = max(by_swap[members[place]], gain)
            best = max(best, gain)
    return best


@njit(cache=True)
def _first_of_the_best(
    items: Items,
    now: Now,
    owner: Channels,
    pairs: Pairs,
    useful: Flags,
    members: Numbers,
    starts: Numbers,
    crowd: Matrix,
    best: float,
    gains: Column,
    by_move: Column,
    by_swap: Column,
) -> tuple[int, int, int]:
    """Return item, partner or -1, and target of the first step that the best does not beat.

    Moves come before swaps; then counts the order of the items, then that of the channels or the partners.
    """
    multiplicity, nobody = items.multiplicity, crowd.shape[1] - 1
    for d1 in range(len(owner)):
        if not beats(-best, -by_move[d1]):
            i = owner[d1]
            place = starts[i] + np.searchsorted(members[starts[i] : starts[i + 1]], d1)
            for j in range(items.channels):
                if useful[i, j]:
                    note_costs(items, members, starts, i, j, crowd)
                    gain = gains_of_shifts(now, pairs[j, i], multiplicity, crowd, nobody, place, place + 1, gains)
                    if not beats(-best, -gain):
                        return d1, -1, j
    d1 = 0
    while beats(-best, -by_swap[d1]):
        d1 += 1
    i, partner = owner[d1], len(owner)
    place = starts[i] + np.searchsorted(members[starts[i] : starts[i + 1]], d1)
    for j in range(i + 1, items.channels):
        if useful[i, j]:
            note_costs(items, members, starts, i, j, crowd)
            note_costs(items, members, starts, j, i, crowd)
            gains_of_shifts(now, pairs[i, j], multiplicity, crowd, place, starts[j], starts[j + 1], gains)
            for other in range(starts[j], starts[j + 1]):
                if not beats(-best, -gains[other]):
                    partner = min(partner, members[other])
    return d1, partner, owner[partner]
