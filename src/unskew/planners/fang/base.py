"""What Fang's planners share: when to act, the state window, and planning on keys or on compact records."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.planners.base import Assignment, Planner
from unskew.planners.fang.balance import Balancer, Trial
from unskew.planners.fang.order import Items
from unskew.planners.fang.window import remember, windowed_state
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew.planners.report import Report

Channels = NDArray[np.int32]


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
    """

    tolerance: float = 0.08
    window: int = 1

    def __post_init__(self) -> None:
        check_parameter(self.tolerance >= 0, "tolerance", self.tolerance, "give the overload allowed, 0.08 for 8 %")
        check_parameter(self.window >= 1, "window", self.window, "1 counts the state of the last interval only")

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
        items = Items(problem.cost, problem.state, current, problem.home, np.ones(len(current), np.int32))
        balancer = Balancer(items, problem.background_cost, self.tolerance, self.priority_exponent)
        if not self._must_act(balancer):
            return Assignment(current, memory=memory)
        trial, notes = self.solve(balancer)
        return Assignment(balancer.owner(trial), trial.forced, notes, memory)

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer of this planner; migration counts the state of the whole window."""
        problem = dataclasses.replace(problem, state=windowed_state(problem, assignment.memory))
        return super().describe(problem, assignment, seconds=seconds)

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
