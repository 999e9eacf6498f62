"""What Flux's planners share: rounds, and planning on slots instead of keys."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from unskew.load.channels import ChannelUse
from unskew.load.statistics import Statistics, add_up
from unskew.planners.base import Assignment, Planner, check, owners_left
from unskew.planners.flux.collection import Collection
from unskew.planners.flux.round import Move, Round
from unskew.planners.memory import Memory
from unskew.planners.problem import Channels, Column, Problem
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable


@dataclass(frozen=True, kw_only=True)
class FluxPlanner(Planner):
    """Pairs the most loaded channel with the least, the next with the next, and moves one slot per pair and round.

    The table holds slots alone: keys with an entry of their own go home, split keys stay split. Every round adds up a
    few intervals before it decides: as many as the last moves took, half as many after a round that moved nothing,
    never fewer than `shortest_collection`. A round costs O(slots) per pair that moves something.

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
        super().__post_init__()
        check(self.imbalance_ratio > 1, "imbalance_ratio must be above 1", self.imbalance_ratio, "Flux has 1.2")
        check(self.shortest_collection >= 1, "shortest_collection must be at least 1", self.shortest_collection)
        check(self.tolerance >= 0, "tolerance must not be negative", self.tolerance, "0.08 allows 8 % overload")

    @abstractmethod
    def choose(self, round: Round) -> list[Move]:
        """Return the slots to move in this round, no channel twice."""

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Play a round, or wait until enough has been collected."""
        current = owners_left(problem)
        collection = Collection.of_memory(memory, self.shortest_collection)
        sums, collection = collection.add(problem, self.shortest_collection)
        if collection.collected < collection.length:
            return Assignment(current, notes=("collecting",), memory=collection.to_memory())
        moves = self.choose(_round_of(sums, current))
        owner = current.copy()
        for slot, channel in moves:
            owner[slot] = channel
        return Assignment(owner, memory=collection.decided(bool(moves), self.shortest_collection).to_memory())

    def _decide(
        self, statistics: Statistics, table: RoutingTable, after: RoutingTable, memory: Memory
    ) -> tuple[RoutingTable, Problem, Assignment]:
        answer = self.assign(_slot_problem(statistics, table, after.slots, after.channels), memory)
        no_hashes, no_channels = np.empty(0, np.int64), np.empty(0, np.int32)
        new = dataclasses.replace(after, slots=answer.owner, explicit_hashes=no_hashes, explicit_channels=no_channels)
        keys = Problem.of_statistics(statistics, table, new)
        return new, keys, dataclasses.replace(answer, owner=keys.home)


def _slot_problem(statistics: Statistics, table: RoutingTable, home: Channels, channels: int) -> Problem:
    """Return the problem of placing whole slots, `home` being where a resize alone would put them.

    The load of listed keys is added to their slots. The load of split keys is left out.
    """
    count = len(table.slots)
    whole = ~np.isin(statistics.hashes, table.split_keys)
    slot = slot_of(statistics.hashes[whole], count)
    listed = (statistics.tuples, statistics.cost, statistics.state)
    tuples, cost, state = (
        rest + add_up(column[whole], slot, count)
        for rest, column in zip(statistics.by_slot(count), listed, strict=True)
    )
    before = max(table.channels, channels)
    columns = {"current": home, "home": home, "state": state, "tuples": tuples}
    return Problem.of_keys(cost, channels=channels, channels_before=before, use=statistics.use, **columns)


def _round_of(sums: Problem, current: Channels) -> Round:
    use = sums.use or ChannelUse(window_seconds=1.0)
    return Round(
        tuples=sums.tuples,
        state_bytes=sums.state,
        current=current,
        spilled=np.zeros(len(current), bool) if use.spilled is None else use.spilled,
        utilisation=_utilisation(sums, use, current),
        memory_bytes=np.full(sums.channels, np.inf) if use.memory_bytes is None else use.memory_bytes,
    )


def _utilisation(problem: Problem, use: ChannelUse, current: Channels) -> Column:
    """Return the busy share of each channel; without idle times, its load as a share of the highest."""
    if use.idle_seconds is not None and len(use.idle_seconds) == problem.channels:
        return np.maximum(1.0 - use.idle_seconds / use.window_seconds, 0.0)
    loads = problem.loads(current)
    highest = loads.max(initial=0.0)
    return loads / highest if highest > 0 else loads
