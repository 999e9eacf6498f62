"""Mixed and MixedBf: how much of the table to clean so that it fits its cap."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.base import PLANNERS, Assignment, check
from unskew.planners.fang.balance import SLACK, Balancer, Trial
from unskew.planners.fang.base import CappedPlanner
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem

MAX_TRIALS = 16


@dataclass(frozen=True, kw_only=True)
class Mixed(CappedPlanner):
    """Keeps the table within its cap and moves little state: MinMig after cleaning n entries, the lightest state first.

    n starts at 0 and grows by as many entries as the resulting table has too many. The 17th trial at the latest cleans
    everything. If even that table is too large, the answer is MinTable's, noted ``table_overflow``. Algorithm 4 in
    section III-C of Fang et al.

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
    """

    name: ClassVar[str] = "mixed"
    summary: ClassVar[str] = "Fang: little state moved while the table stays within its cap"

    migration_exponent: float = 1.5
    hard_cap: bool = False
    fallback: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.fallback:
            PLANNERS[name]

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
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


@dataclass(frozen=True, kw_only=True)
class MixedBf(CappedPlanner):
    """Mixed by brute force: all n from 0 to the size of the table, the best plan wins.

    The best plan is within the tolerance, then within the cap, then moves the least state, then has the smallest table,
    then cleans the least. A large table is tried in even steps, `max_trials` of them, always with 0 and everything.
    Section III-C of Fang et al.

    Parameters
    ----------
    table_cap, migration_exponent
        As for `Mixed`.
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
    """

    name: ClassVar[str] = "mixedbf"
    summary: ClassVar[str] = "Fang: Mixed by brute force over how much of the table to clean; slow"

    migration_exponent: float = 1.5
    max_trials: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        hint = "2 tries cleaning nothing and everything"
        check(self.max_trials >= 2, "max_trials must be at least 2", self.max_trials, hint)

    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        size = balancer.table_size
        amounts = np.unique(np.linspace(0, size, min(size + 1, self.max_trials)).round().astype(int))
        best = min((balancer.trial(int(n)) for n in amounts), key=lambda trial: self._judge(balancer, trial))
        return best, ("table_overflow",) if best.table_size > self.entries_allowed else ()

    def _judge(self, balancer: Balancer, trial: Trial) -> tuple[bool, bool, float, int, int]:
        overloaded = bool(trial.loads.max() > balancer.limit)
        overflowing = trial.table_size > self.entries_allowed
        return overloaded, overflowing, trial.migration_cost, trial.table_size, trial.cleaned
