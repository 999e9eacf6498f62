"""Which move or swap of items gains the most: the search under readj."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.gedik.items import Channels, Column, beats
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
    gains_of_shifts,
    least_penalty,
    note_costs,
)
from unskew.planners.gedik.utility import utility

Flags = NDArray[np.bool_]
Pairs = NDArray[np.float64]


@njit(cache=True)
def try_moves(
    now: Now,
    multiplicity: Numbers,
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
def try_swaps(
    now: Now,
    multiplicity: Numbers,
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
    channels, first, second, lowest = len(useful), 0, 0, np.inf
    for i in range(channels):
        for j in range(i + 1, channels):
            if useful[i, j]:
                penalty = least_penalty(pairs[i, j], multiplicity)
                if penalty < lowest:
                    first, second, lowest = i, j, penalty
    if first < second:
        best = _try_pair(
            now, multiplicity, first, second, pairs[first, second], members, starts, crowd, best, gains, by_swap
        )
    for i in range(channels):
        for j in range(i + 1, channels):
            if useful[i, j] and not (i == first and j == second):
                best = _try_pair(now, multiplicity, i, j, pairs[i, j], members, starts, crowd, best, gains, by_swap)
    return best


@njit(cache=True)
def _try_pair(
    now: Now,
    multiplicity: Numbers,
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
    """Do the work of `try_swaps` for two channels.

    Useful shifts lie between two bounds, and the items of a channel are sorted by weight: the partners in question for
    an item follow each other, and begin no earlier than those of the item before. Of these, only partners of about
    the same share can reach the best gain known, which is per share shifted.
    """
    begin, finish, rows = starts[j], starts[j + 1], len(multiplicity)
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
def first_of_the_best(
    now: Now,
    multiplicity: Numbers,
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
