"""Redist: of all keys still to place, the one that fits best for its weight goes next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import Channels, Column, Items, beats, combine_gaps, unit_of_gaps, weigh_gap
from unskew.planners.gedik.placing import Matrix, Numbers, choose_channel, note_extremes, put, score_channels
from unskew.planners.gedik.utility import utility


@dataclass(frozen=True)
class Redist(GedikPlanner):
    """Places, again and again, the pair of hot key and channel with the best utility per share of the tuples.

    Like `Scan` it starts from an empty table, but chooses the order as it goes. Costs O(R^2 N) for R hot keys on N
    channels.

    References
    ----------
    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.3, Algorithm 3.

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
        """Return the channel of each item."""
        return _kernel_redist(items, self.utility_kind)[0]


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
        note_extremes(loads, extremes, emptiest)
        penalty = migration / items.ideal_migration
        _bound_ranks(
            share[:remaining], load, items.multiplicity, items.deviation, channels, kind, penalty, extremes, ranks
        )
        for place in range(remaining):
            if not beats(best, ranks[place]):
                item = left[place]
                ranks[place] = score_channels(
                    items, item, kind, share[place], migration, loads, extremes, emptiest, scores
                )
                best = min(best, ranks[place])
        place = 0
        while beats(best, ranks[place]):
            place += 1
        item = order[step] = left[place]
        score_channels(items, item, kind, share[place], migration, loads, extremes, emptiest, scores)
        owner[item] = choose_channel(best, items.current[item], scores)
        migration += put(items, item, owner[item], loads)
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
