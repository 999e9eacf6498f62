"""The planners to compare with: plain hashing, consistent hashing, and leaving everything as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.planners.base import Assignment, Planner, owners_left
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Problem
from unskew.routing.table import RoutingTable


@dataclass(frozen=True)
class ConsistentHash(Planner):
    """Every key with its slot, no table: a resize moves the least that it can.

    Examples
    --------
    >>> p = Problem.of_keys([5, 1], channels=2, current=[1, 1], home=[0, 1])
    >>> ConsistentHash().assign(p, Memory()).owner.tolist()
    [0, 1]
    """

    name: ClassVar[str] = "consistent"
    summary: ClassVar[str] = "consistent hashing: no table, a resize moves the least it can"

    tolerance: float = 0.08

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        return Assignment(problem.home, memory=memory)


@dataclass(frozen=True)
class UniformHash(ConsistentHash):
    """Slot s belongs to channel ``s mod N``, no table: even, but a resize moves nearly everything.

    Examples
    --------
    >>> UniformHash().slots(RoutingTable.initial(2, slots=6), 3).tolist()
    [0, 1, 2, 0, 1, 2]
    """

    name: ClassVar[str] = "hash"
    summary: ClassVar[str] = "plain hashing: no table, a resize moves nearly everything"

    def slots(self, table: RoutingTable, channels: int) -> Channels:
        return (np.arange(len(table.slots)) % channels).astype(np.int32)


@dataclass(frozen=True)
class KeepAsIs(Planner):
    """Every key where it is; only keys of a channel that leaves go home.

    Examples
    --------
    >>> p = Problem.of_keys([5, 1, 1], channels=2, current=[1, 0, 2], home=[0, 1, 1])
    >>> KeepAsIs().assign(p, Memory()).owner.tolist()
    [1, 0, 1]
    """

    name: ClassVar[str] = "keep"
    summary: ClassVar[str] = "no change: what an unbalanced run suffers"

    tolerance: float = 0.08

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        return Assignment(owners_left(problem), memory=memory)
