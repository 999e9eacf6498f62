"""Readj: start from where the keys are and improve by single moves and swaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.errors import ArgumentError
from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import Channels, Items, beats
from unskew.planners.gedik.search import first_of_the_best, try_moves, try_swaps
from unskew.planners.gedik.shifting import LOAD, NO_GAIN, Now, describe_pairs, gather_crowd, measure, migration_cost
from unskew.planners.gedik.utility import utility


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
        best = try_moves(now, multiplicity, pairs, useful, members, starts, crowd, gains, by_move)
        best = try_swaps(now, multiplicity, pairs, useful, members, starts, crowd, best, gains, by_swap)
        if best == NO_GAIN or (positive_only and not beats(-best, 0.0)):
            return steps
        d1, d2, target = first_of_the_best(
            now, multiplicity, owner, pairs, useful, members, starts, crowd, best, gains, by_move, by_swap
        )
        if d2 >= 0:
            owner[d2] = owner[d1]
            moves[d2] += 1
        owner[d1] = target
        moves[d1] += 1
        steps += 1
