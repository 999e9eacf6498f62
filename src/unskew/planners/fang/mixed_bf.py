"""MixedBF: try every amount of cleaning and keep the best plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.base import CappedPlanner, check_parameter


@dataclass(frozen=True, kw_only=True)
class MixedBf(CappedPlanner):
    """Mixed by brute force: all n from 0 to the size of the table, the best plan wins.

    The best plan is within the tolerance, then within the cap, then moves the least state, then has the smallest table,
    then cleans the least. A large table is tried in even steps, `max_trials` of them, always with 0 and everything.

    Parameters
    ----------
    table_cap
        Entries the table may hold, A_max in Fang et al.; None for any number.
    migration_exponent
        Weight of cost against state, beta in Fang et al.
    max_trials
        How many amounts of cleaning to try at most; at least 2.

    Examples
    --------
    >>> from unskew.planners import Memory, Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> MixedBf(tolerance=0, table_cap=3).assign(problem, Memory()).owner.tolist()
    [0, 1, 0, 0, 1, 1]

    References
    ----------
    Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", Section III-C.
    """

    name: ClassVar[str] = "mixedbf"
    summary: ClassVar[str] = "Fang: Mixed by brute force over how much of the table to clean; slow"

    migration_exponent: float = 1.5
    max_trials: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parameter(self.migration_exponent >= 0, "migration_exponent", self.migration_exponent, "1 to 2 is usual")
        check_parameter(self.max_trials >= 2, "max_trials", self.max_trials, "2 tries cleaning nothing and everything")

    @property
    def priority_exponent(self) -> float:
        """Fang's beta."""
        return self.migration_exponent

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Try all amounts of cleaning."""
        size = balancer.table_size
        amounts = np.unique(np.linspace(0, size, min(size + 1, self.max_trials)).round().astype(int))
        best = min((balancer.trial(int(n)) for n in amounts), key=lambda trial: self._judge(balancer, trial))
        return best, ("table_overflow",) if best.table_size > self.entries_allowed else ()

    def _judge(self, balancer: Balancer, trial: Trial) -> tuple[bool, bool, float, int, int]:
        overloaded = bool(trial.loads.max() > balancer.limit)
        overflowing = trial.table_size > self.entries_allowed
        return overloaded, overflowing, trial.migration_cost, trial.table_size, trial.cleaned
