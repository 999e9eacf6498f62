"""The collection phase: how many intervals a round adds up before it decides, kept in the planner's memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.planners.memory import Memory
from unskew.planners.problem import Column, Problem


def next_collection(current: float, shortest: float, moves_took: float | None) -> float:
    """Return how long to collect next: as long as the last moves took, half as long if nothing moved.

    So at most about half of the time goes into moving. All times are in the caller's unit.

    >>> next_collection(4, 1, moves_took=6), next_collection(4, 1, moves_took=None), next_collection(1, 1, None)
    (6, 2.0, 1)
    """
    return max(shortest, current / 2 if moves_took is None else moves_took)


@dataclass(frozen=True, eq=False)
class Collection:
    """Intervals added up so far, and how many it takes."""

    length: int  # intervals to add up before a decision
    collected: int = 0
    moved: bool = False  # the last decision moved something, so `length` has to follow the time that took
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # per slot, as the next two
    tuples: Column = field(default_factory=lambda: np.empty(0))
    cost: Column = field(default_factory=lambda: np.empty(0))
    idle_seconds: Column = field(default_factory=lambda: np.empty(0))  # per channel; empty where not measured
    window_seconds: float = 0.0  # length of all intervals together

    @classmethod
    def of_memory(cls, memory: Memory, shortest: int) -> Collection:
        """Return the collection that a memory holds; a new one of the shortest length if it holds none."""
        values, tables = memory.values, memory.tables
        if "collection_intervals" not in values:
            return cls(shortest)
        length, moved = max(shortest, int(values["collection_intervals"])), bool(values["moved"])
        if not tables:
            return cls(length, moved=moved)
        hashes, tuples, cost = (tables["slots"][name].to_numpy() for name in ("hash", "tuples", "cost"))
        idle, seconds = tables["channels"]["idle_seconds"].to_numpy(), float(values["window_seconds"])
        return cls(length, int(values["collected_intervals"]), moved, hashes, tuples, cost, idle, seconds)

    def to_memory(self) -> Memory:
        """Return the collection as a planner's memory; without tables if nothing has been collected yet."""
        values = {
            "collection_intervals": self.length,
            "collected_intervals": self.collected,
            "moved": self.moved,
            "window_seconds": self.window_seconds,
        }
        if not self.collected:
            return Memory(values)
        slots = {"hash": self.hashes, "tuples": self.tuples, "cost": self.cost}
        return Memory(values, {"slots": pa.table(slots), "channels": pa.table({"idle_seconds": self.idle_seconds})})

    def add(self, problem: Problem, shortest: int) -> tuple[Problem, Collection]:
        """Add an interval; return the problem with the sums of all intervals so far, and the collection to remember.

        A collection of other slots or other channels than the problem's starts anew.
        """
        use, length = problem.use, self.length
        if self.moved:
            took = use.move_seconds / use.window_seconds if use else 0.0
            length = math.ceil(next_collection(length, shortest, took))
        idle = np.empty(0) if use is None or use.idle_seconds is None else use.idle_seconds
        window = use.window_seconds if use else 0.0
        tuples, cost, collected = problem.tuples, problem.cost, 1
        if self.collected and np.array_equal(self.hashes, problem.hashes) and len(idle) == len(self.idle_seconds):
            tuples, cost = tuples + self.tuples, cost + self.cost
            idle, window, collected = idle + self.idle_seconds, window + self.window_seconds, self.collected + 1
        if use is not None:
            use = replace(use, window_seconds=window, idle_seconds=idle if len(idle) else None)
        sums = replace(problem, tuples=tuples, cost=cost, use=use)
        return sums, Collection(length, collected, False, problem.hashes, tuples, cost, idle, window)

    def decided(self, moved: bool, shortest: int) -> Collection:
        """Return the empty collection to begin with after a decision."""
        length = self.length if moved else math.ceil(next_collection(self.length, shortest, None))
        return Collection(length, moved=moved)
