"""MinMig: move keys that cost much and carry little state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.base import FangPlanner, check_parameter


@dataclass(frozen=True, kw_only=True)
class MinMig(FangPlanner):
    """Keeps the table as it is and takes keys by migration priority: little state moved, a table that grows.

    The priority of a key is ``cost ** migration_exponent / state``; a key without state comes first, a key without
    cost is never touched. The bound of `Llfd` on the overload holds here too. Nothing bounds the table: under steady
    change it tends to ``keys * (N - 1) / N`` entries.

    Parameters
    ----------
    migration_exponent
        Weight of cost against state, beta in Fang et al. At 1 keys rank by cost per byte; larger values prefer heavy
        keys, which keeps the table smaller.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [6, 6, 2, 2], channels=2, state=[9, 1, 1, 1], current=[0, 0, 1, 1], home=[0, 0, 1, 1]
    ... )
    >>> MinMig().assign(problem, Memory()).owner.tolist()
    [0, 1, 0, 1]

    References
    ----------
    Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", Section III-B, Algorithm 3.
    """

    name: ClassVar[str] = "minmig"
    summary: ClassVar[str] = "Fang: move keys with much cost and little state; the table is not bounded"

    migration_exponent: float = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parameter(self.migration_exponent >= 0, "migration_exponent", self.migration_exponent, "1 to 2 is usual")

    @property
    def priority_exponent(self) -> float:
        """Fang's beta."""
        return self.migration_exponent

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Place by priority, without cleaning."""
        return balancer.trial(0), ()
