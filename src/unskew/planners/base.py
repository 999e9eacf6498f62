"""What a planner is: a pure function from statistics and a table to a new table."""

from __future__ import annotations

import dataclasses
import inspect
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew.planners.report import Report, describe_plan
from unskew.registry import Registry
from unskew.routing.moves import Moves
from unskew.routing.slots import resize_slots
from unskew.routing.table import RoutingTable

if TYPE_CHECKING:
    from unskew.load.resources import ResourceFunction

Channels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Assignment:
    """A planner's answer to a `Problem`.

    Parameters
    ----------
    owner
        The channel of each key.
    forced
        Keys placed although no channel could take them within the tolerance.
    notes
        Short words on what was special, for people and programs: ``"table_overflow"``.
    memory
        What to hand in with the next interval's statistics.
    """

    owner: Channels
    forced: int = 0
    notes: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)


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

    Subclasses are frozen dataclasses whose fields are the parameters. They carry a `name` (their word in the registry;
    without one of their own they are not registered) and a `summary` (one line), and answer `assign`. They are pure and
    deterministic: the same statistics, table and memory give the same plan.
    """

    name: ClassVar[str] = "unnamed"
    summary: ClassVar[str] = ""
    for_balance: ClassVar[bool] = True
    """Whether a plan is worth its moves only if it evens out the measured cost; false where memory or waiting count."""

    tolerance: float
    """Overload allowed over the mean, max/mean - 1."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in cls.__dict__:
            PLANNERS.add(cls.name, cls)

    def knowing(self, memory: str | ResourceFunction, compute: str | ResourceFunction) -> Self:
        """Return this planner, told how an operator's state and work grow with a key's share of the rows.

        Planners that go by measured cost and state have no use for it; what the user has set stays as it is.
        """
        return self

    @abstractmethod
    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Choose an owner for every key of the problem."""

    def slots(self, table: RoutingTable, channels: int) -> Channels:
        """Return the slot owners of the table to come; by default those in force, resized."""
        return resize_slots(table.slots, table.channels, channels)

    def plan(
        self,
        statistics: Statistics,
        table: RoutingTable,
        *,
        channels: int | None = None,
        memory: Memory | None = None,
    ) -> Plan:
        """Return the table to use next.

        Parameters
        ----------
        statistics
            Load of the interval that ended.
        table
            The table in force.
        channels
            How many channels there shall be; by default as many as now.
        memory
            What this planner's last plan returned as its memory.
        """
        started = time.perf_counter()
        target = table.channels if channels is None else channels
        after = dataclasses.replace(table.resize(target), slots=self.slots(table, target), version=table.version + 1)
        problem = Problem.of_statistics(statistics, table, after)
        assignment = self.assign(problem, memory or Memory())
        away = assignment.owner != problem.home
        new = dataclasses.replace(after, explicit_hashes=problem.hashes[away], explicit_channels=assignment.owner[away])
        figures = self.describe(problem, assignment, seconds=time.perf_counter() - started)
        return Plan(new, table.moves_to(new), figures, assignment.memory)

    def describe(self, problem: Problem, assignment: Assignment, *, seconds: float = 0.0) -> Report:
        """Return the figures of an answer of this planner."""
        return describe_plan(
            problem,
            assignment.owner,
            planner=self.name,
            tolerance=self.tolerance,
            forced=assignment.forced,
            notes=assignment.notes,
            seconds=seconds,
        )


def planner(name: str, **parameters: Any) -> Planner:
    """Return the planner of that name with the given parameters.

    Examples
    --------
    >>> planner("keep")
    KeepAsIs(tolerance=0.08)
    """
    cls = PLANNERS[name]
    known = set(inspect.signature(cls).parameters)
    unknown = sorted(set(parameters) - known)
    if unknown:
        raise ArgumentError(
            f"planner {name!r} has no parameter {unknown[0]!r}", hint=f"it takes {', '.join(sorted(known))}"
        )
    return cls(**parameters)
