"""What Fang's planners share: when to act, the state window, and planning on keys or on compact records."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unskew.errors import ArgumentError
from unskew.planners.base import Assignment, Planner
from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.compact import RecordBalancer, RecordPlan
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
        check_parameter(self.tolerance >= 0, "tolerance", self.tolerance, "give the overload allowed, 0.08 for 8 %")
        check_parameter(self.window >= 1, "window", self.window, "1 counts the state of the last interval only")
        check_parameter(self.degree is None or self.degree >= 0, "degree", self.degree, "None plans on single keys")

    @property
    def priority_exponent(self) -> float:
        """Fang's beta, for planners that rank by migration priority."""
        return 1.5

    @property
    def entries_allowed(self) -> float:
        """How large the table may be before the planner acts."""
        return np.inf

    @abstractmethod
    def solve(self, balancer: Balancer) -> tuple[Trial, tuple[str, ...]]:
        """Return the trial to follow, and notes."""

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Choose an owner for every key of the problem."""
        memory = remember(problem, memory, self.window)
        problem = dataclasses.replace(problem, state=windowed_state(problem, memory))
        current = owners_left(problem)
        items = Items.of(problem.cost, problem.state, current, problem.home)
        balancer = Balancer(items, problem.background_cost, self.tolerance, self.priority_exponent)
        if not self._must_act(balancer):
            return Assignment(current, memory=memory)
        if self.degree is not None:
            return self._assign_by_records(problem, current, memory)
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

    def _assign_by_records(self, problem: Problem, current: Channels, memory: Memory) -> Assignment:
        columns = (problem.cost, problem.state, current, problem.home)
        records, record_of = Records.of_keys(*columns, degree=self.degree or 0)
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
    """A planner that also acts when the table holds more than `table_cap` entries.

    That drains the table after growing: the slots change, keys stay where they are, and each of them needs an entry.

    Parameters
    ----------
    table_cap
        Entries the table may hold, A_max in Fang et al.; None for any number.
    """

    table_cap: int | None = 3000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_parameter(self.table_cap is None or self.table_cap >= 0, "table_cap", self.table_cap, "None is unlimited")

    @property
    def entries_allowed(self) -> float:
        """How large the table may be before the planner acts."""
        return np.inf if self.table_cap is None else self.table_cap


def owners_left(problem: Problem) -> Channels:
    """Return the owner of each key; keys of a channel that leaves belong to their home."""
    if problem.channels_before <= problem.channels:
        return problem.current
    return np.where(problem.current < problem.channels, problem.current, problem.home).astype(np.int32)


def check_parameter(good: bool, name: str, value: object, hint: str) -> None:
    """Raise `ArgumentError` unless the parameter is good."""
    if not good:
        raise ArgumentError(f"{name} is out of range", got=value, hint=hint)
