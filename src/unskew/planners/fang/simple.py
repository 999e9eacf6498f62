"""Simple: forget all owners and place the heaviest keys first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.base import Assignment, Planner, check, owners_left
from unskew.planners.fang.balance import SLACK
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem


@dataclass(frozen=True, kw_only=True)
class Simple(Planner):
    """Longest first: discards all ownership and gives each key, the heaviest first, to the least loaded channel.

    Balances well (at most ``(1 - 1/N) / 3`` over the mean if a perfectly even assignment exists and every key is
    lighter than the mean) and moves nearly everything. Does nothing while no channel exceeds the tolerance. Costs
    O(keys * (log keys + channels)). Lemma 3 and theorem 4 in appendix A of Fang et al.; R. L. Graham, "Bounds on
    Multiprocessing Timing Anomalies", SIAM J. Appl. Math. 17(2), 1969.

    Examples
    --------
    >>> problem = Problem.of_keys([3, 3, 2, 2, 2], channels=2, current=[0] * 5, home=[0] * 5)
    >>> Simple().assign(problem, Memory()).owner.tolist()
    [0, 1, 0, 1, 0]
    """

    name: ClassVar[str] = "simple"
    summary: ClassVar[str] = "Fang: forget all owners, heaviest key to the least loaded; moves nearly everything"

    tolerance: float = 0.08

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.tolerance >= 0, "tolerance must not be negative", self.tolerance, "0.08 allows 8 % overload")

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        current, limit = owners_left(problem), (1 + self.tolerance + SLACK) * problem.mean_load
        if problem.loads(current).max() <= limit:
            return Assignment(current, memory=memory)
        heaviest_first = np.argsort(-problem.cost, kind="stable")
        return Assignment(_kernel_longest_first(problem.cost, heaviest_first, problem.background_cost), memory=memory)


@njit(cache=True)
def _kernel_longest_first(cost: Column, heaviest_first: NDArray[np.int64], background: Column) -> Channels:
    loads = background.copy()
    owner = np.empty(len(cost), np.int32)
    for key in heaviest_first:
        channel = np.argmin(loads)
        owner[key] = channel
        loads[channel] += cost[key]
    return owner
