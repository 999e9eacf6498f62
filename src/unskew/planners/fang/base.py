"""What Fang's planners share: when to act, the state window, and planning on keys or on compact records."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unskew.planners.base import Assignment, Planner, check, owners_left
from unskew.planners.fang.balance import Balancer, RecordBalancer, RecordPlan, Trial
from unskew.planners.fang.order import Items, priorities
from unskew.planners.fang.records import Records
from unskew.planners.fang.recovery import load_error, recover_owners
from unskew.planners.fang.window import remember, windowed_state
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem
from unskew.planners.report import Report


@dataclass(frozen=True, kw_only=True)
class FangPlanner(Planner):
    """Cleans the routing table, takes keys off overloaded channels, and places them with LLFD.

    Nothing happens, whatever the table, unless some channel is loaded over ``(1 + tolerance)`` times the mean or the
    table holds more entries than it may. Keys of a channel that leaves go home before anything else.

    Parameters
    ----------
    tolerance
        Overload allowed over the mean, theta_max in Fang et al.
    window
        Intervals over which the state of a key is added up, w in Fang et al.
    degree
        Plan on compact records of degree r, in which costs and states are rounded to multiples of ``2 ** r`` times
        the smallest one and to powers of two below that; None plans on the keys themselves. The answer is noted with
        the largest relative error of the loads it was based on: ``"load_error=0.0012"``.
    """

    tolerance: float = 0.08
    window: int = 1
    degree: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.tolerance >= 0, "tolerance must not be negative", self.tolerance, "0.08 allows 8 % overload")
        check(self.window >= 1, "window must be at least 1", self.window, "1 counts the last interval alone")
        good = self.degree is None or self.degree >= 0
        check(good, "degree must be at least 0", self.degree, "None plans on single keys")
        exponent = self.priority_exponent
        check(exponent >= 0, "migration_exponent must not be negative", exponent, "1 to 2 is usual")

    @property
    def priority_exponent(self) -> float:
        """Fang's beta: the migration priority of a key is ``cost ** beta / state``."""
        return float(getattr(self, "migration_exponent", 1.5))

    @property
    def entries_allowed(self) -> float:
        """How large the table may be before the planner acts."""
        return np.inf

    @abstractmethod
    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Return the trial to follow, and notes."""

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        memory = remember(problem, memory, self.window)
        problem = dataclasses.replace(problem, state=windowed_state(problem, memory))
        current = owners_left(problem)
        items = Items.of(problem.cost, problem.state, current, problem.home)
        balancer = Balancer(items, problem.background_cost, self.tolerance, self.priority_exponent)
        if not self._must_act(balancer):
            return Assignment(current, memory=memory)
        if self.degree is not None:
            return self._assign_by_records(problem, current, memory, self.degree)
        trial, notes = self.solve(balancer)
        return Assignment(balancer.owner(trial), trial.forced, notes, memory)

    def plan_records(self, records: Records, background_cost: Column) -> RecordPlan:
        """Choose the next owners of compact records; there are as many channels as entries of `background_cost`."""
        balancer = RecordBalancer(records, background_cost, self.tolerance, self.priority_exponent)
        return balancer.plan(*self.solve(balancer)) if self._must_act(balancer) else balancer.keep()

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer of this planner; migration counts the state of the whole window."""
        problem = dataclasses.replace(problem, state=windowed_state(problem, assignment.memory))
        return super().describe(problem, assignment, seconds=seconds)

    def _assign_by_records(self, problem: Problem, current: Channels, memory: Memory, degree: int) -> Assignment:
        records, record_of = Records.of_keys(problem.cost, problem.state, current, problem.home, degree=degree)
        plan = self.plan_records(records, problem.background_cost)
        rank = problem.cost if plan.by_cost else priorities(problem.cost, problem.state, self.priority_exponent)
        owner = recover_owners(plan.records, plan.source, record_of, rank, current)
        error = load_error(plan.loads, problem.loads(owner))
        return Assignment(owner, plan.forced, (*plan.notes, f"load_error={error:.4f}"), memory)

    def _must_act(self, balancer: Balancer) -> bool:
        if balancer.mean_load == 0:
            return False
        return balancer.overloaded or (self.entries_allowed < np.inf and balancer.table_size > self.entries_allowed)


@dataclass(frozen=True, kw_only=True)
class CappedPlanner(FangPlanner):
    """A planner that also acts when the table holds more than `table_cap` entries, A_max in Fang et al."""

    table_cap: int | None = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        good = self.table_cap is None or self.table_cap >= 0
        check(good, "table_cap must not be negative", self.table_cap, "None is unlimited")

    @property
    def entries_allowed(self) -> float:
        return np.inf if self.table_cap is None else self.table_cap
