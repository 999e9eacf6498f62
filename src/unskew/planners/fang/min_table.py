"""MinTable: send every key home first, so that few entries are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.base import CappedPlanner


@dataclass(frozen=True, kw_only=True)
class MinTable(CappedPlanner):
    """Cleans the whole table, then places the heaviest keys first: a small table, much state moved.

    The bound of `Llfd` on the overload holds here too. `table_cap` only decides when to act: the table that results is
    about as small as one can have it, and is noted as ``table_overflow`` if it still holds more.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> answer = MinTable(tolerance=0).assign(problem, Memory())
    >>> answer.owner.tolist(), problem.loads(answer.owner).tolist()
    ([0, 1, 0, 0, 1, 1], [10.0, 10.0])

    References
    ----------
    Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", Section III-B, Algorithm 2.
    """

    name: ClassVar[str] = "mintable"
    summary: ClassVar[str] = "Fang: empty the table first, then place by cost; few entries, much state moved"

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Clean everything and place by cost."""
        trial = balancer.trial(balancer.table_size, by_cost=True)
        return trial, ("table_overflow",) if trial.table_size > self.entries_allowed else ()
