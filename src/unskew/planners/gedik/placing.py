"""Scan and redist: hot keys are placed one by one on an empty table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import (
    UTILITIES,
    Items,
    Matrix,
    Numbers,
    beats,
    combine_gaps,
    unit_of_gaps,
    utility,
    weigh_gap,
)
from unskew.planners.problem import Channels, Column


@dataclass(frozen=True)
class Scan(GedikPlanner):
    """Places the hot keys in the order of their load, heaviest first, each on the channel of the best utility.

    Never looks back: the quickest of Gedik's three. Costs O(R N) for R hot keys on N channels. Algorithm 2 in section
    4.2.2 of Gedik.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> shares, current = [1, 1, 4, 2, 3, 5, 3, 3], [1, 1, 1, 0, 1, 0, 1, 0]
    >>> problem = Problem.of_keys(shares, channels=3, current=current, home=current)
    >>> Scan(balance_ratio=1.2).assign(problem, Memory()).owner.tolist()
    [2, 1, 1, 0, 2, 0, 2, 1]
    """

    name: ClassVar[str] = "scan"
    summary: ClassVar[str] = "Gedik: hot keys heaviest first, each to the best channel of the moment"

    def place(self, items: Items) -> Channels:
        return _kernel_scan(items, UTILITIES.index(self.utility))


@dataclass(frozen=True)
class Redist(GedikPlanner):
    """Places, again and again, the pair of hot key and channel with the best utility per share of the tuples.

    Like `Scan` it starts from an empty table, but chooses the order as it goes. Costs O(R^2 N) for R hot keys on N
    channels. Algorithm 3 in section 4.2.3 of Gedik.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> shares, current = [1, 1, 4, 2, 3, 5, 3, 3], [1, 1, 1, 0, 1, 0, 1, 0]
    >>> problem = Problem.of_keys(shares, channels=3, current=current, home=current)
    >>> Redist(balance_ratio=1.2).assign(problem, Memory()).owner.tolist()
    [1, 2, 1, 2, 2, 0, 1, 0]
    """

    name: ClassVar[str] = "redist"
    summary: ClassVar[str] = "Gedik: the hot key and channel that fit best for the key's weight go next"

    def place(self, items: Items) -> Channels:
        return _kernel_redist(items, UTILITIES.index(self.utility))[0]


@njit(cache=True)
def _kernel_scan(items: Items, kind: int) -> Channels:
    loads = items.base_load.copy()
    extremes, emptiest = np.empty((loads.shape[0], 4)), np.empty(loads.shape[0], np.int64)
    scores = np.empty(items.channels)
    owner = np.empty(len(items.share), np.int32)
    migration = items.migration
    for item in range(len(owner)):
        _note_extremes(loads, extremes, emptiest)
        best = _score_channels(items, item, kind, 1.0, migration, loads, extremes, emptiest, scores)
        owner[item] = _choose_channel(best, items.current[item], scores)
        migration += _put(items, item, owner[item], loads)
    return owner


@njit(cache=True)
def _kernel_redist(items: Items, kind: int) -> tuple[Channels, Numbers]:
    """Return the owners, and the items in the order in which they were placed."""
    count, rows, channels = len(items.share), items.load.shape[0], items.channels
    loads, extremes, emptiest = items.base_load.copy(), np.empty((rows, 4)), np.empty(rows, np.int64)
    scores, ranks = np.empty(channels), np.empty(count)
    owner, order = np.empty(count, np.int32), np.empty(count, np.int64)
    left, share, load = np.arange(count), items.share.copy(), items.load.copy()
    migration = items.migration
    for step in range(count):
        remaining, best = count - step, np.inf
        _note_extremes(loads, extremes, emptiest)
        penalty = migration / items.ideal_migration
        _bound_ranks(
            share[:remaining], load, items.multiplicity, items.deviation, channels, kind, penalty, extremes, ranks
        )
        for place in range(remaining):
            if not beats(best, ranks[place]):
                item = left[place]
                ranks[place] = _score_channels(
                    items, item, kind, share[place], migration, loads, extremes, emptiest, scores
                )
                best = min(best, ranks[place])
        place = 0
        while beats(best, ranks[place]):
            place += 1
        item = order[step] = left[place]
        _score_channels(items, item, kind, share[place], migration, loads, extremes, emptiest, scores)
        owner[item] = _choose_channel(best, items.current[item], scores)
        migration += _put(items, item, owner[item], loads)
        for after in range(place + 1, remaining):
            left[after - 1], share[after - 1] = left[after], share[after]
            for k in range(rows):
                load[k, after - 1] = load[k, after]
    return owner, order


@njit(cache=True, error_model="numpy")
def _bound_ranks(
    share: Column,
    load: Matrix,
    multiplicity: Numbers,
    deviation: Column,
    channels: int,
    kind: int,
    migration_penalty: float,
    extremes: Matrix,
    ranks: Column,
) -> None:
    """Write what each item can reach at best: every resource on its emptiest channel, and nothing migrated.

    Most items are ruled out by it at the cost of a single channel, in vector instructions.
    """
    for k in range(len(multiplicity)):
        highest, lowest, second, total = extremes[k, 0], extremes[k, 1], extremes[k, 2], extremes[k, 3]
        for place in range(len(share)):
            added = load[k, place]
            gap = max(highest, lowest + added) - min(second, lowest + added)
            factor = weigh_gap(gap * unit_of_gaps(deviation[k], total + added, channels), multiplicity[k])
            ranks[place] = ranks[place] * factor if k else factor
    resources = multiplicity.sum()
    for place in range(len(share)):
        bound = utility(kind, combine_gaps(ranks[place], resources), migration_penalty)
        ranks[place] = bound / share[place] * (1.0 - 1e-14)


@njit(cache=True)
def _note_extremes(loads: Matrix, extremes: Matrix, emptiest: Numbers) -> None:
    """Write per resource the highest, lowest and second lowest load and the total, and which channel is the lowest."""
    for k in range(loads.shape[0]):
        highest, lowest, second, total, where = -np.inf, np.inf, np.inf, 0.0, 0
        for channel in range(loads.shape[1]):
            load = loads[k, channel]
            total += load
            highest = max(highest, load)
            if load < lowest:
                lowest, second, where = load, lowest, channel
            elif load < second:
                second = load
        extremes[k, 0], extremes[k, 1], extremes[k, 2], extremes[k, 3] = highest, lowest, second, total
        emptiest[k] = where


@njit(cache=True)
def _gap_with(added: float, load: float, is_emptiest: bool, extremes: Column) -> float:
    """Return max - min if `added` comes to a channel with `load`. Costs O(1)."""
    lowest = min(extremes[2], load + added) if is_emptiest else extremes[1]
    return float(max(extremes[0], load + added) - lowest)


@njit(cache=True)
def _score_channels(
    items: Items,
    item: int,
    kind: int,
    divisor: float,
    migration: float,
    loads: Matrix,
    extremes: Matrix,
    emptiest: Numbers,
    scores: Column,
) -> float:
    """Write the utility of adding the item to each channel, over `divisor`; return the best one."""
    rows, channels = loads.shape
    resources = int(items.multiplicity.sum())
    best = np.inf
    for channel in range(channels):
        product = 1.0
        for k in range(rows):
            added = items.load[k, item]
            gap = _gap_with(added, loads[k, channel], channel == emptiest[k], extremes[k])
            unit = unit_of_gaps(items.deviation[k], extremes[k, 3] + added, channels)
            product *= weigh_gap(gap * unit, items.multiplicity[k])
        cost = migration + (items.state[item] if channel != items.current[item] else 0.0)
        score = utility(kind, combine_gaps(product, resources), cost / items.ideal_migration)
        scores[channel] = score / divisor
        best = min(best, scores[channel])
    return best


@njit(cache=True)
def _choose_channel(best: float, own: int, scores: Column) -> int:
    """Return a channel whose score the best does not beat: the item's own, else the lowest number."""
    if own < len(scores) and not beats(best, scores[own]):
        return own
    channel = 0
    while beats(best, scores[channel]):
        channel += 1
    return channel


@njit(cache=True)
def _put(items: Items, item: int, channel: int, loads: Matrix) -> float:
    """Add the item to the channel's loads; return what moving it costs."""
    for k in range(loads.shape[0]):
        loads[k, channel] += items.load[k, item]
    return float(items.state[item]) if channel != items.current[item] else 0.0
