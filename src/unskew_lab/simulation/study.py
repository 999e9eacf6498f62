"""How planners grow: thousands of channels and a hundred million keys, as expected loads instead of single tuples.

Coarser than the cluster: there is no time within an interval, no queue and no network. What is exact is what planners
see and decide: the load of every slot under Zipf's law over all keys, the hottest keys one by one, the routing table,
and what moves from one table to the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics
from unskew.planners.base import PLANNERS, planner
from unskew.planners.memory import Memory
from unskew.routing.table import RoutingTable

Column = NDArray[np.float64]

# most channels at which a planner is studied: beyond, one plan takes minutes
SLOW = {"mixedbf": 100, "readj": 200, "redist": 1000}


@dataclass(frozen=True)
class Point:
    """What a planner did at one size, as means over the intervals after the first."""

    planner: str
    channels: int
    keys: int
    imbalance: float  # overload of the fullest channel over the mean, for the interval that was planned for
    imbalance_next: float  # the same in the interval that follows, when keys have drifted on
    migrated_share: float  # part of all state that moved at a plan
    table_size: float  # entries for single keys
    planning_seconds: float  # time of one plan


@dataclass(frozen=True, kw_only=True)
class Study:
    """Zipf's law over many keys, drifting, planned anew in every interval.

    The loads of an interval are expected values, not draws. State is as large as load, as for a window over the last
    interval. The heaviest `tracked` keys are reported one by one, all others by slot. Costs O(keys) once, in no memory
    to speak of, and O(tracked + slots) per interval beside the planner.

    >>> point, = Study(channels=10, keys=100_000).run(["mixed"])
    >>> point.imbalance < 0.5, point.migrated_share < 0.3
    (True, True)
    """

    # channels, keys: how many
    channels: int
    keys: int
    slots_per_channel: int = 64  # slots of the routing table for each channel
    tracked: int = 0  # keys that are reported one by one; by default, fifty for each channel, 1,000 to 50,000
    exponent: float = 0.85  # of Zipf's law
    # load of the heaviest key over the mean of a channel: the law is cut off there, since what is heavier only
    # splitting could help, and all planners of this study would look alike
    heaviest: float = 0.2
    # part of the tracked ranks that go to other keys, drawn at random, from one interval to the next
    drift: float = 0.02
    intervals: int = 6  # how many, the first included
    seed: int = 0  # of the drift

    def __post_init__(self) -> None:
        if self.channels < 2 or self.keys < self.channels:
            raise ArgumentError("a study needs two channels or more, and as many keys", got=(self.channels, self.keys))
        if self.intervals < 2:
            raise ArgumentError("a study needs at least two intervals", got=self.intervals)

    def run(self, names: Iterable[str]) -> list[Point]:
        """Study some planners on the same intervals; those too slow for this size are left out."""
        intervals = self.statistics()
        chosen = [name for name in names if self.channels <= SLOW.get(name, self.channels)]
        return [self._point(name, intervals) for name in chosen]

    def statistics(self) -> list[Statistics]:
        slots, few = self.channels * self.slots_per_channel, min(self.keys, self.tracked or _tracked(self.channels))
        slot_load, top = np.zeros(slots), np.empty(few)
        _kernel_zipf(self.keys, self.exponent, slot_load, top)
        for _ in range(50):  # what is cut off lowers the mean, and with it the cut
            top = np.minimum(top, self.heaviest * (slot_load.sum() + top.sum()) / self.channels)
        total = slot_load.sum() + top.sum()
        slot_load, top = slot_load / total, top / total
        rng = np.random.default_rng(self.seed)
        names, cold = np.arange(few, dtype=np.int64), self.keys
        reports = []
        for _ in range(self.intervals):
            hashes = _mix(names)
            rows, rest = 1e9 * top, 1e9 * slot_load
            reports.append(Statistics(hashes, rows, rows, rows, rest, rest, rest, distinct_keys=float(self.keys)))
            drifting = rng.random(few) < self.drift
            names = names.copy()
            names[drifting] = np.arange(cold, cold + int(drifting.sum()))  # keys that were too light to matter
            cold += int(drifting.sum())
        return reports

    def _point(self, name: str, intervals: list[Statistics]) -> Point:
        chosen = planner(name)
        table = RoutingTable.initial(self.channels, self.channels * self.slots_per_channel)
        memory: Memory | None = None
        rows = []
        chosen.plan(intervals[0], table)  # compiles what has to be
        for now, following in pairwise(intervals):
            started = time.perf_counter()
            plan = chosen.plan(now, table, memory=memory)
            seconds = time.perf_counter() - started
            table, memory = plan.table, plan.memory
            loads = np.bincount(table.lookup(following.hashes), following.cost, self.channels)
            loads += np.bincount(table.slots, following.slot_cost, self.channels)
            report = plan.report
            overload = loads.max() / loads.mean() - 1
            rows.append((report.overload_after, overload, report.migration_share, report.table_size, seconds))
        settled = np.array(rows[1:] or rows).mean(axis=0)
        return Point(name, self.channels, self.keys, *(float(value) for value in settled))


def planners_of_the_study() -> list[str]:
    """Return all planners of the registry but the one that needs no study: ``keep`` moves nothing, as ``hash`` does."""
    return [name for name in PLANNERS if name != "keep"]


def _tracked(channels: int) -> int:
    return int(np.clip(50 * channels, 1000, 50_000))


def _mix(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a 64-bit hash of each number: SplitMix64."""
    hashes = np.empty(len(keys), np.int64)
    _kernel_mix(keys, hashes)
    return hashes


@njit(cache=True)
def _kernel_mix(keys: NDArray[np.int64], hashes: NDArray[np.int64]) -> None:
    for place in range(len(keys)):
        hashes[place] = _splitmix(keys[place])


@njit(cache=True)
def _splitmix(key: int) -> np.int64:
    z = (np.uint64(key) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@njit(cache=True)
def _kernel_zipf(keys: int, exponent: float, slot_load: Column, top: Column) -> None:
    """Add every key's weight to its slot, but for the heaviest, which go to `top`."""
    for rank in range(keys):
        weight = (rank + 1.0) ** -exponent
        if rank < len(top):
            top[rank] = weight
        else:
            slot_load[np.int64(_splitmix(rank)) % len(slot_load)] += weight
