"""Readj: start from where the keys are and improve by single moves and swaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.base import check
from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import UTILITIES, Items, Matrix, Numbers, beats, utility
from unskew.planners.gedik.shifting import (
    COST,
    LEAST,
    LOAD,
    MOST,
    NO_GAIN,
    SHARE,
    Now,
    describe_pairs,
    gains_of_shifts,
    gather_crowd,
    least_penalty,
    measure,
    migration_cost,
    note_costs,
)
from unskew.planners.problem import Channels, Column


@dataclass(frozen=True)
class Readj(GedikPlanner):
    """Moves a hot key to another channel, or swaps two, as long as that makes the balance better.

    Each step takes, among all moves and swaps that lower the balance penalty, the one with the greatest gain in
    utility per share of the tuples shifted. Ends because the balance penalty falls with each step. A step costs at
    most O(R^2) for R hot keys; only pairs of channels of which one is the fullest or the emptiest are looked at.
    Algorithm 4 in section 4.2.4 of Gedik.

    Parameters
    ----------
    require_positive_gain
        Take only steps that improve the utility, and not every one that improves the balance. Migrates less,
        balances worse.
    max_moves_per_item
        How often one key may be moved while the table is built.

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
        check(self.max_moves_per_item >= 1, "a key must be allowed one move at least", self.max_moves_per_item)

    def place(self, items: Items) -> Channels:
        owner = np.where(items.current < items.channels, items.current, items.home).astype(np.int32)
        _kernel_readj(items, owner, UTILITIES.index(self.utility), self.require_positive_gain, self.max_moves_per_item)
        return owner


class Board(NamedTuple):
    """All that the search for a step looks at; `shifting` fills it in."""

    now: Now
    multiplicity: Numbers
    pairs: NDArray[np.float64]
    useful: NDArray[np.bool_]
    members: Numbers
    starts: Numbers
    crowd: Matrix
    gains: Column


@njit(cache=True)
def _kernel_readj(items: Items, owner: Channels, kind: int, positive_only: bool, max_moves: int) -> int:
    """Improve `owner` in place; return the number of steps."""
    count, channels, rows, multiplicity = len(owner), items.channels, items.load.shape[0], items.multiplicity
    loads, gaps, units = np.empty((rows, channels)), np.empty(rows), np.empty(rows)
    pairs, useful = np.empty((channels, channels, rows, 7)), np.empty((channels, channels), np.bool_)
    members, starts = np.empty(count, np.int64), np.empty(channels + 1, np.int64)
    crowd, gains = np.empty((LOAD + rows, count + 1)), np.empty(count)
    by_move, by_swap, moves = np.empty(count), np.empty(count), np.zeros(count, np.int64)
    steps = 0
    while True:
        balance_penalty = measure(items, owner, loads, gaps, units)
        migration_penalty = migration_cost(items, owner) / items.ideal_migration
        before = utility(kind, balance_penalty, migration_penalty)
        now = Now(kind, multiplicity.sum(), balance_penalty, migration_penalty, before)
        describe_pairs(loads, gaps, units, pairs, useful)
        gather_crowd(items, owner, moves < max_moves, members, starts, crowd)
        board = Board(now, multiplicity, pairs, useful, members, starts, crowd, gains)
        best = _try_swaps(board, _try_moves(board, by_move), by_swap)
        if best == NO_GAIN or (positive_only and not beats(-best, 0.0)):
            return steps
        d1, d2, target = _first_of_the_best(board, owner, best, by_move, by_swap)
        if d2 >= 0:
            owner[d2] = owner[d1]
            moves[d2] += 1
        owner[d1] = target
        moves[d1] += 1
        steps += 1


@njit(cache=True)
def _try_moves(board: Board, by_move: Column) -> float:
    """Write the best gain of each item by a move; return the best of all. A move is a swap with nobody."""
    now, multiplicity, pairs, useful, members, starts, crowd, gains = board
    by_move[:] = NO_GAIN
    channels, nobody, best = len(useful), crowd.shape[1] - 1, NO_GAIN
    for i in range(channels):
        for j in range(channels):
            if not useful[i, j]:
                continue
            start, end = _partners_in_reach(pairs[j, i], crowd, nobody, starts[i], starts[i + 1])
            if start < end:
                note_costs(starts, i, j, crowd)
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
def _try_swaps(board: Board, best: float, by_swap: Column) -> float:
    """Write each item's best gain by a swap with one on a higher channel, if it comes near the best of all.

    Returns the best gain of all, `best` included. The most promising pair of channels goes first.
    """
    multiplicity, pairs, useful = board.multiplicity, board.pairs, board.useful
    by_swap[:] = NO_GAIN
    channels, first, second, lowest = len(useful), 0, 0, np.inf
    for i in range(channels):
        for j in range(i + 1, channels):
            if useful[i, j]:
                penalty = least_penalty(pairs[i, j], multiplicity)
                if penalty < lowest:
                    first, second, lowest = i, j, penalty
    if first < second:
        best = _try_pair(board, first, second, best, by_swap)
    for i in range(channels):
        for j in range(i + 1, channels):
            if useful[i, j] and not (i == first and j == second):
                best = _try_pair(board, i, j, best, by_swap)
    return best


@njit(cache=True)
def _try_pair(board: Board, i: int, j: int, best: float, by_swap: Column) -> float:
    """Do the work of `_try_swaps` for two channels.

    Useful shifts lie between two bounds, and the items of a channel are sorted by weight. So an item's possible
    partners stand next to each other, and begin no earlier than those of the item before. Of these, only partners of
    about the same share can reach the best gain known, which is per share shifted.
    """
    now, multiplicity, pairs, _, members, starts, crowd, gains = board
    pair, begin, finish, rows = pairs[i, j], starts[j], starts[j + 1], len(multiplicity)
    if begin == finish:
        return best
    note_costs(starts, i, j, crowd)
    note_costs(starts, j, i, crowd)
    shares, costs = crowd[SHARE], crowd[COST]
    lows, highs = np.full(rows, begin), np.full(rows, begin)
    least_cost, penalty = now.migration_penalty + costs[begin:finish].min(), least_penalty(pair, multiplicity)
    kind, before = now.kind, now.utility
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
        if start == finish:
            break
        if start >= end:
            continue
        to_reach = best - 1e-9 * max(1.0, abs(best))
        if to_reach > 0.0:
            share = shares[place]
            reach = (before - utility(kind, penalty, least_cost + costs[place])) / to_reach
            while start < end and shares[start] - share > reach:
                start += 1
            while start < end and share - shares[end - 1] > reach:
                end -= 1
        if start < end:
            gain = gains_of_shifts(now, pair, multiplicity, crowd, place, start, end, gains)
            by_swap[members[place]] = max(by_swap[members[place]], gain)
            best = max(best, gain)
    return best


@njit(cache=True)
def _first_of_the_best(
    board: Board, owner: Channels, best: float, by_move: Column, by_swap: Column
) -> tuple[int, int, int]:
    """Return item, partner or -1, and target of the first step that the best does not beat.

    Moves come before swaps, then steps in the order of the items, then in that of the channels or the partners.
    """
    now, multiplicity, pairs, useful, members, starts, crowd, gains = board
    channels, nobody = len(useful), crowd.shape[1] - 1
    for d1 in range(len(owner)):
        if not beats(-best, -by_move[d1]):
            i = owner[d1]
            place = starts[i] + np.searchsorted(members[starts[i] : starts[i + 1]], d1)
            for j in range(channels):
                if useful[i, j]:
                    note_costs(starts, i, j, crowd)
                    gain = gains_of_shifts(now, pairs[j, i], multiplicity, crowd, nobody, place, place + 1, gains)
                    if not beats(-best, -gain):
                        return d1, -1, j
    d1 = 0
    while beats(-best, -by_swap[d1]):
        d1 += 1
    i, partner = owner[d1], len(owner)
    place = starts[i] + np.searchsorted(members[starts[i] : starts[i + 1]], d1)
    for j in range(i + 1, channels):
        if useful[i, j]:
            note_costs(starts, i, j, crowd)
            note_costs(starts, j, i, crowd)
            gains_of_shifts(now, pairs[i, j], multiplicity, crowd, place, starts[j], starts[j + 1], gains)
            for other in range(starts[j], starts[j + 1]):
                if not beats(-best, -gains[other]):
                    partner = min(partner, members[other])
    return d1, partner, owner[partner]
