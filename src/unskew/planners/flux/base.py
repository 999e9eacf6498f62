"""What Flux's planners share: rounds, and planning on slots instead of keys."""

from __future__ import annotations

import dataclasses
import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.errors import ArgumentError
from unskew.load.statistics import Statistics, add_up
from unskew.planners.base import Assignment, Plan, Planner
from unskew.planners.flux.collection import Collection, utilisation
from unskew.planners.flux.round import Round
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Problem
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable


@dataclass(frozen=True, kw_only=True)
class FluxPlanner(Planner):
    """Pairs the most loaded channel with the least, the next with the next, and moves one slot per pair and round.

    The table holds slots alone: keys with an entry of their own go home, those that are split stay split. Every round
    adds up a few intervals before it decides: as many as the last moves took, half as many after a round that moved
    nothing, never fewer than `shortest_collection`. A round costs O(slots) per pair that moves something.

    To `assign`, an entry of the problem is a slot; `plan` builds such a problem from statistics and a table.

    Parameters
    ----------
    tolerance
        Overload over the mean above which a key is reported as one that only splitting helps. Rounds do not use it.
    imbalance_ratio
        By how much the first of a pair must exceed the second for a slot to move (1.2 in Flux); above 1.
    shortest_collection
        Intervals that a round adds up at least.
    """

    for_balance: ClassVar[bool] = False

    tolerance: float = 0.08
    imbalance_ratio: float = 1.2
    shortest_collection: int = 1

    def __post_init__(self) -> None:
        if not self.imbalance_ratio > 1:
            raise ArgumentError("imbalance_ratio must be above 1", got=self.imbalance_ratio, hint="Flux has 1.2")
        if self.shortest_collection < 1:
            raise ArgumentError("shortest_collection must be at least 1", got=self.shortest_collection)
        if not self.tolerance >= 0:
            raise ArgumentError("tolerance must not be negative", got=self.tolerance, hint="0.08 allows 8 % overload")

    @abstractmethod
    def choose(self, round: Round) -> list[tuple[int, int]]:
        """Return the slots to move in this round, each with its new channel, no channel twice."""

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Play a round, or wait until enough has been collected."""
        current = np.where(problem.current < problem.channels, problem.current, problem.home).astype(np.int32)
        collection = Collection.of_memory(memory, self.shortest_collection)
        sums, collection = collection.add(problem, self.shortest_collection)
        if collection.collected < collection.length:
            return Assignment(current, notes=("collecting",), memory=collection.to_memory())
        moves = self.choose(_round_of(sums, current))
        owner = current.copy()
        for slot, channel in moves:
            owner[slot] = channel
        return Assignment(owner, memory=collection.decided(bool(moves), self.shortest_collection).to_memory())

    def plan(
        self, statistics: Statistics, table: RoutingTable, *, channels: int | None = None, memory: Memory | None = None
    ) -> Plan:
        """Return the table to use next; see `Planner.plan`."""
        started = time.perf_counter()
        target = table.channels if channels is None else channels
        after = dataclasses.replace(table.resize(target), slots=self.slots(table, target), version=table.version + 1)
        answer = self.assign(slot_problem(statistics, table, after.slots, target), memory or Memory())
        nothing = np.empty(0, np.int64)
        new = dataclasses.replace(
            after, slots=answer.owner, explicit_hashes=nothing, explicit_channels=nothing.astype(np.int32)
        )
        keys = Problem.of_statistics(statistics, table, new)
        home = dataclasses.replace(answer, owner=keys.home)
        figures = self.describe(keys, home, seconds=time.perf_counter() - started)
        return Plan(new, table.moves_to(new), figures, answer.memory)


def slot_problem(statistics: Statistics, table: RoutingTable, home: Channels, channels: int) -> Problem:
    """Return the problem of placing whole slots, `home` being where a resize alone would put them.

    The load of tracked keys is added to their slots, that of split keys left out.
    """
    count = len(table.slots)
    whole = ~np.isin(statistics.hashes, table.split_keys)
    slot = slot_of(statistics.hashes[whole], count)
    tracked = (statistics.tuples, statistics.cost, statistics.state)
    tuples, cost, state = (
        rest + add_up(column[whole], slot, count)
        for rest, column in zip(statistics.by_slot(count), tracked, strict=True)
    )
    return Problem.of_keys(
        cost,
        channels=channels,
        current=home,
        home=home,
        state=state,
        tuples=tuples,
        channels_before=max(table.channels, channels),
        use=statistics.use,
    )


def _round_of(sums: Problem, current: Channels) -> Round:
    use = sums.use
    memory = None if use is None else use.memory_bytes
    spilled = None if use is None else use.spilled
    return Round(
        tuples=sums.tuples,
        state_bytes=sums.state,
        current=current,
        spilled=np.zeros(len(current), bool) if spilled is None else spilled,
        utilisation=utilisation(sums, use),
        memory_bytes=np.full(sums.channels, np.inf) if memory is None else memory,
    )
