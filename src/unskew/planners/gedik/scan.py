"""Scan: heaviest key first, each to the channel that is best for the moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.items import Channels, Items
from unskew.planners.gedik.placing import choose_channel, note_extremes, put, score_channels


@dataclass(frozen=True)
class Scan(GedikPlanner):
    """Places the hot keys in the order of their load, heaviest first, each on the channel of the best utility.

    Never looks back: the quickest of Gedik's three. Costs O(R N) for R hot keys on N channels.

    References
    ----------
    Gedik, "Partitioning functions for stateful data parallelism in stream processing", section 4.2.2, Algorithm 2.

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
        """Return the channel of each item."""
        return _kernel_scan(items, self.utility_kind)


@njit(cache=True)
def _kernel_scan(items: Items, kind: int) -> Channels:
    loads = items.base_load.copy()
    extremes, emptiest = np.empty((loads.shape[0], 4)), np.empty(loads.shape[0], np.int64)
    scores = np.empty(items.channels)
    owner = np.empty(len(items.share), np.int32)
    migration = items.migration
    for item in range(len(owner)):
        note_extremes(loads, extremes, emptiest)
        best = score_channels(items, item, kind, 1.0, migration, loads, extremes, emptiest, scores)
        owner[item] = choose_channel(best, items.current[item], scores)
        migration += put(items, item, owner[item], loads)
    return owner
