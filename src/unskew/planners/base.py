"""What a planner is: a pure function from statistics and a table to a new table."""

from __future__ import annotations

import dataclasses
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from unskew.errors import ArgumentError, require_fields
from unskew.load.statistics import Statistics
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Problem
from unskew.planners.report import Report, describe_plan
from unskew.registry import Registry
from unskew.routing.moves import Moves
from unskew.routing.slots import resize_slots
from unskew.routing.table import RoutingTable

if TYPE_CHECKING:
    from unskew.load.resources import ResourceFunction


@dataclass(frozen=True, eq=False)
class Assignment:
    """A planner's answer to a `Problem`."""

    owner: Channels  # the channel of each key
    forced: int = 0  # keys placed although no channel could take them within the tolerance
    notes: tuple[str, ...] = ()  # what was special, in single words: "table_overflow"
    memory: Memory = field(default_factory=Memory)  # to hand in with the next interval's statistics


@dataclass(frozen=True, eq=False)
class Plan:
    """A new table, what has to move to get there, and figures about it."""

    table: RoutingTable
    moves: Moves
    report: Report
    memory: Memory


PLANNERS: Registry[Planner] = Registry("planner", "unskew.planners")


class Planner(ABC):
    """Decides which channel owns which key.

    Subclasses are frozen dataclasses whose fields are the parameters. A class with a `name` of its own is registered
    under it; `summary` describes it in one line. Planners are pure and deterministic: the same statistics, table and
    memory give the same plan.
    """

    name: ClassVar[str] = "unnamed"
    summary: ClassVar[str] = ""
    for_balance: ClassVar[bool] = True  # whether only a more even cost makes a plan worth its moves

    tolerance: float  # overload allowed, max/mean - 1

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            PLANNERS.add(cls.name, cls)

    def __post_init__(self) -> None:
        require_fields(self)

    def knowing(self, memory: str | ResourceFunction, compute: str | ResourceFunction) -> Self:
        """Return this planner, told how an operator's state and work grow with a key's share of the rows.

        Planners that go by measured cost and state ignore this. What the user has set stays as it is.
        """
        return self

    @abstractmethod
    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Choose an owner for every key of the problem."""

    def slots(self, table: RoutingTable, channels: int) -> Channels:
        """Return the slot owners of the table to come; by default those in force, resized."""
        return resize_slots(table.slots, table.channels, channels)

    def plan(
        self, statistics: Statistics, table: RoutingTable, *, channels: int | None = None, memory: Memory | None = None
    ) -> Plan:
        """Return the table to use next.

        Parameters
        ----------
        statistics
            Load of the interval that ended.
        table
            The table in force.
        channels
            How many channels the new table shall have; by default as many as now.
        memory
            The memory of this planner's last plan.
        """
        started = time.perf_counter()
        target = table.channels if channels is None else channels
        after = dataclasses.replace(table.resize(target), slots=self.slots(table, target), version=table.version + 1)
        new, problem, assignment = self._decide(statistics, table, after, memory or Memory())
        figures = self.describe(problem, assignment, seconds=time.perf_counter() - started)
        return Plan(new, table.moves_to(new), figures, assignment.memory)

    def _decide(
        self, statistics: Statistics, table: RoutingTable, after: RoutingTable, memory: Memory
    ) -> tuple[RoutingTable, Problem, Assignment]:
        """Return the new table on the slots of `after`, with the problem and the answer that it follows from."""
        problem = Problem.of_statistics(statistics, table, after)
        assignment = self.assign(problem, memory)
        away = assignment.owner != problem.home
        new = dataclasses.replace(after, explicit_hashes=problem.hashes[away], explicit_channels=assignment.owner[away])
        return new, problem, assignment

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer of this planner."""
        forced, notes = assignment.forced, assignment.notes
        return describe_plan(problem, assignment.owner, self.name, self.tolerance, forced, notes, seconds)


def planner(name: str, **parameters: Any) -> Planner:
    """Return the planner of that name with the given parameters.

    Examples
    --------
    >>> planner("keep")
    KeepAsIs(tolerance=0.08)
    """
    return PLANNERS.make(name, **parameters)


def owners_left(problem: Problem) -> Channels:
    """Return the owner of each key; keys of a channel that leaves belong to their home."""
    if problem.channels_before <= problem.channels:
        return problem.current
    return np.where(problem.current < problem.channels, problem.current, problem.home).astype(np.int32)


def check(good: bool, what: str, got: object, hint: str | None = None) -> None:
    """Raise `ArgumentError` unless a parameter is good."""
    if not good:
        raise ArgumentError(what, got=got, hint=hint)
