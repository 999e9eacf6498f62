"""The exact optimum of small problems, by mixed integer programming: what any plan with one owner per key can reach."""

from __future__ import annotations

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array

from unskew.planners import Problem

SLACK = 1e-9


def lowest_imbalance(problem: Problem) -> float:
    """Return the smallest possible overload of the fullest channel, max/mean - 1."""
    keys, channels = len(problem.cost), problem.channels
    one_owner, load = _rows(problem)
    # the last variable is the load of the fullest channel, which is to be small
    objective = np.append(np.zeros(keys * channels), 1.0)
    owned = LinearConstraint(_widened(one_owner, 0.0), 1, 1)
    bounded = LinearConstraint(_widened(load, -1.0), -np.inf, -problem.background_cost)
    integral = np.append(np.ones(keys * channels), 0)
    upper = np.append(np.ones(keys * channels), np.inf)
    answer = milp(objective, constraints=[owned, bounded], integrality=integral, bounds=Bounds(0, upper))
    assert answer.success, answer.message
    return float(answer.fun / problem.mean_load - 1)


def lowest_migration(problem: Problem, imbalance: float, table_cap: float = np.inf) -> float | None:
    """Return the least state that must move to come within `imbalance` and the cap; None if nothing does."""
    keys, channels = len(problem.cost), problem.channels
    one_owner, load = _rows(problem)
    owner = np.tile(np.arange(channels), keys)
    moved = owner != np.repeat(problem.current, channels)
    away = owner != np.repeat(problem.home, channels)
    limit = (1 + imbalance + SLACK) * problem.mean_load
    constraints = [
        LinearConstraint(one_owner, 1, 1),
        LinearConstraint(load, -np.inf, limit - problem.background_cost),
    ]
    if table_cap < np.inf:
        constraints.append(LinearConstraint(coo_array(away[None, :].astype(float)), 0, table_cap))
    cost = np.repeat(problem.state, channels) * moved
    answer = milp(cost, constraints=constraints, integrality=np.ones(keys * channels), bounds=Bounds(0, 1))
    return float(answer.fun) if answer.success else None


def _rows(problem: Problem) -> tuple[coo_array, coo_array]:
    """Return the sums over owners of each key, and over keys of each channel's load; variables go key by key."""
    keys, channels = len(problem.cost), problem.channels
    variable = np.arange(keys * channels)
    one_owner = coo_array((np.ones(len(variable)), (variable // channels, variable)), (keys, keys * channels))
    load = coo_array((np.repeat(problem.cost, channels), (variable % channels, variable)), (channels, keys * channels))
    return one_owner, load


def _widened(rows: coo_array, last: float) -> np.ndarray:
    return np.hstack([rows.toarray(), np.full((rows.shape[0], 1), last)])
