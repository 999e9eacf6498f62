"""LLFD alone: the least loaded channel takes the heaviest key, and makes room for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.base import FangPlanner


@dataclass(frozen=True, kw_only=True)
class Llfd(FangPlanner):
    """Least-load fit decreasing: no cleaning, the heaviest keys first.

    Keys are taken off overloaded channels, the heaviest first, and offered, the heaviest first, to the channels, the
    least loaded first. A channel that would be overloaded may pass on lighter keys to make room (Adjust).

    If a perfectly even assignment exists and every key is lighter than the mean load, the fullest channel ends at most
    ``max(tolerance, (1 - 1/N) / 3)`` over the mean. Every key is placed at most once; costs O(keys) for the loads plus
    O(m log m) for the m keys it looks at.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> answer = Llfd(tolerance=0).assign(problem, Memory())
    >>> answer.owner.tolist(), problem.loads(answer.owner).tolist()
    ([1, 0, 1, 0, 0, 1], [10.0, 10.0])

    References
    ----------
    Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", Section III-A, Algorithm 1.
    """

    name: ClassVar[str] = "llfd"
    summary: ClassVar[str] = "Fang: heaviest keys of overloaded channels to the least loaded, with exchange"

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Place by cost, without cleaning."""
        return balancer.trial(0, by_cost=True), ()
