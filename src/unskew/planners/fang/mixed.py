"""Mixed: clean as much of the table as the cap asks for, and no more."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.base import PLANNERS, Assignment
from unskew.planners.fang.balance import SLACK, Balancer, Trial
from unskew.planners.fang.base import CappedPlanner, check_parameter
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem

MAX_TRIALS = 16


@dataclass(frozen=True, kw_only=True)
class Mixed(CappedPlanner):
    """Keeps the table within its cap and moves little state: MinMig after cleaning n entries, the lightest state first.

    n starts at 0 and grows by what the resulting table holds too much, so it ends: after at most 17 trials, the last
    of which cleans everything. If even that table is too large, the answer is MinTable's, noted ``table_overflow``.

    The bound of `Llfd` on the overload holds for every trial. The paper's Theorems 2 and 4 (never worse balanced than
    LLFD alone, than longest-first placement) do not hold as printed; `fallback` makes them true.

    Parameters
    ----------
    table_cap
        Entries the table may hold, A_max in Fang et al.; None for any number.
    migration_exponent
        Weight of cost against state in the priority ``cost ** migration_exponent / state``, beta in Fang et al.
    hard_cap
        Never exceed `table_cap`: send the cheapest keys of the table home until it fits, whatever that does to the
        balance.
    fallback
        Planners to ask as well when the overload stays above the tolerance; the least overload wins. With
        ``("llfd", "mintable")`` Theorem 2 holds, with ``"simple"`` among them Theorem 4 (and nearly everything moves).

    Examples
    --------
    >>> from unskew.planners import Problem
    >>> problem = Problem.of_keys(
    ...     [7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1]
    ... )
    >>> for cap in (4, 2, 1):
    ...     answer = Mixed(tolerance=0, table_cap=cap).assign(problem, Memory())
    ...     print(answer.owner.tolist(), answer.notes)
    [1, 0, 1, 0, 0, 1] ()
    [0, 1, 0, 0, 1, 1] ()
    [0, 1, 0, 0, 1, 1] ('table_overflow',)

    References
    ----------
    Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance", Section III-C, Algorithm 4.
    """

    name: ClassVar[str] = "mixed"
    summary: ClassVar[str] = "Fang: little state moved while the table stays within its cap"

    migration_exponent: float = 1.5
    hard_cap: bool = False
    fallback: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parameter(self.migration_exponent >= 0, "migration_exponent", self.migration_exponent, "1 to 2 is usual")
        for name in self.fallback:
            PLANNERS[name]

    @property
    def priority_exponent(self) -> float:
        """Fang's beta."""
        return self.migration_exponent

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Clean more and more until the table fits; if it never does, follow MinTable."""
        last = self.trials(balancer)[-1]
        if last.table_size <= self.entries_allowed:
            return last, ()
        return balancer.trial(balancer.table_size, by_cost=True), ("table_overflow",)

    def trials(self, balancer: Balancer) -> list[Trial]:
        """Return the trials in turn; the last fits into the table, or cleans everything."""
        trials, size = [balancer.trial(0)], balancer.table_size
        while (excess := trials[-1].table_size - self.entries_allowed) > 0 and trials[-1].cleaned < size:
            more = excess if len(trials) < MAX_TRIALS else size
            trials.append(balancer.trial(int(min(size, trials[-1].cleaned + more))))
        return trials

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Choose an owner for every key of the problem."""
        answer = super().assign(problem, memory)
        if self.hard_cap:
            answer = self._cut(problem, answer)
        return self._best(problem, answer) if self.fallback else answer

    def _cut(self, problem: Problem, answer: Assignment) -> Assignment:
        """Send the cheapest keys of the table home until the cap holds."""
        away = np.flatnonzero(answer.owner != problem.home)
        if len(away) <= self.entries_allowed:
            return answer
        cheapest = away[np.argsort(problem.cost[away], kind="stable")][: len(away) - int(self.entries_allowed)]
        owner = answer.owner.copy()
        owner[cheapest] = problem.home[cheapest]
        return dataclasses.replace(answer, owner=owner, notes=(*answer.notes, "hard_cap"))

    def _best(self, problem: Problem, answer: Assignment) -> Assignment:
        """Ask the other planners if the overload is above the tolerance, and keep the best balanced answer."""
        lowest = problem.loads(answer.owner).max()
        slack = SLACK * problem.mean_load
        for name in self.fallback:
            if lowest <= (1 + self.tolerance) * problem.mean_load + slack:
                break
            other = PLANNERS[name](tolerance=self.tolerance).assign(problem, Memory())  # type: ignore[call-arg]
            highest = problem.loads(other.owner).max()
            if highest < lowest - slack:
                lowest = highest
                answer = dataclasses.replace(other, notes=(*other.notes, f"fallback_{name}"), memory=answer.memory)
        return answer
