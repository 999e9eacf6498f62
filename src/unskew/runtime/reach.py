"""A planner's tolerance, brought within reach of what a load allows."""

from __future__ import annotations

import copy

import numpy as np

from unskew.load.statistics import Statistics, add_up
from unskew.planners.base import Planner
from unskew.routing.table import RoutingTable


def within_reach(planner: Planner, statistics: Statistics, table: RoutingTable) -> Planner:
    """Return the planner with a tolerance that one owner per key can keep to.

    Where one key alone exceeds what a channel may have, no assignment is within the tolerance, and Fang's algorithms
    put that key on top of what some channel has, as their last resort. The best assignment gives the key a channel of
    its own, with what must stay there. The other channels may then have as much.

    >>> from unskew.planners import planner
    >>> loads = Statistics.of_keys([1, 2, 3, 4], [50.0, 10.0, 10.0, 10.0])
    >>> within_reach(planner("mixed"), loads, RoutingTable.initial(4, 16)).tolerance
    1.5
    """
    rest = np.zeros(table.channels)
    if len(statistics.slot_cost) == len(table.slots):
        rest = add_up(statistics.slot_cost, table.slots, table.channels)
    heaviest = statistics.cost.max(initial=0.0) + rest.min()
    reachable = float(heaviest / (statistics.total_cost / table.channels)) - 1.0
    return with_tolerance(planner, max(reachable, planner.tolerance))


def with_tolerance(planner: Planner, tolerance: float) -> Planner:
    """Return the planner with another tolerance."""
    if tolerance == planner.tolerance:
        return planner
    changed = copy.copy(planner)
    object.__setattr__(changed, "tolerance", tolerance)  # planners are frozen
    return changed
