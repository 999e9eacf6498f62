"""The collection phase: how many intervals a round adds up before it decides, kept in the planner's memory."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.load.channels import ChannelUse
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem

Column = NDArray[np.float64]


def next_collection(current: float, shortest: float, moves_took: float | None) -> float:
    """Return how long to collect next: as long as the last moves took, half as long if nothing moved.

    So that at most about half of the time goes into moving. The unit is the caller's.

    >>> next_collection(4, 1, moves_took=6), next_collection(4, 1, moves_took=None), next_collection(1, 1, None)
    (6, 2.0, 1)
    """
    return max(shortest, current / 2 if moves_took is None else moves_took)


@dataclass(frozen=True, eq=False)
class Collection:
    """Intervals added up so far, and how many it takes.

    Parameters
    ----------
    length
        Intervals to add up before a decision.
    collected
        Intervals added up.
    moved
        Whether the last decision moved anything, so that `length` has to follow the time that took.
    hashes, tuples, cost
        Per slot: what was added up.
    idle_seconds
        Per channel; empty where it was not measured.
    window_seconds
        Length of all intervals together.
    """

    length: int
    collected: int = 0
    moved: bool = False
    hashes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    tuples: Column = field(default_factory=lambda: np.empty(0))
    cost: Column = field(default_factory=lambda: np.empty(0))
    idle_seconds: Column = field(default_factory=lambda: np.empty(0))
    window_seconds: float = 0.0

    @classmethod
    def of_memory(cls, memory: Memory, shortest: int) -> Collection:
        """Return the collection that a memory holds; a new one of the shortest length if it holds none."""
        values, tables = memory.values, memory.tables
        if "collection_intervals" not in values:
            return cls(shortest)
        length, moved = max(shortest, int(values["collection_intervals"])), bool(values["moved"])
        if not tables:
            return cls(length, moved=moved)
        return cls(
            length=length,
            collected=int(values["collected_intervals"]),
            moved=moved,
            hashes=tables["slots"]["hash"].to_numpy(),
            tuples=tables["slots"]["tuples"].to_numpy(),
            cost=tables["slots"]["cost"].to_numpy(),
            idle_seconds=tables["channels"]["idle_seconds"].to_numpy(),
            window_seconds=float(values["window_seconds"]),
        )

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

        A collection that speaks of other slots or other channels than the problem starts anew.
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


def utilisation(problem: Problem, use: ChannelUse | None) -> Column:
    """Return the busy share of each channel; without idle times, its load as a share of the highest."""
    if use is not None and use.idle_seconds is not None and len(use.idle_seconds) == problem.channels:
        return np.maximum(1.0 - use.idle_seconds / use.window_seconds, 0.0)
    owner = np.where(problem.current < problem.channels, problem.current, problem.home)
    loads = problem.loads(owner)
    highest = loads.max(initial=0.0)
    return loads / highest if highest > 0 else loads
