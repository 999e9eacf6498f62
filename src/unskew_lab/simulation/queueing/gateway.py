"""The gateway: routes every message, and decides anew at the end of every counting window."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.load.channels import ChannelUse
from unskew.planners.base import Planner
from unskew.planners.memory import Memory
from unskew.planners.smalops import HotKeyWindow, Smalops
from unskew.routing.table import RoutingTable
from unskew_lab.simulation.queueing.message_sets import MessageSets
from unskew_lab.simulation.queueing.queues import kernel_wait
from unskew_lab.simulation.queueing.topic import Arrivals, Topic

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Decision:
    """What was decided at the end of a window."""

    seconds: float  # when
    messages: int  # messages of the window
    hot_keys: int  # hot keys of the window, over all gateways, and most_hot_keys of a single one
    most_hot_keys: int
    entries: int  # entries of the routing table
    moves: int  # keys that changed their partition
    unsplittable: int  # hot keys that alone are above what the planner aims at for a partition
    planning_seconds: float  # real time that counting and planning took


@dataclass(frozen=True, kw_only=True)
class Gateway:
    """How hot keys are found, and who places them.

    >>> Gateway(hot_by="abs", hot_threshold=100).planner.name
    'smalops'
    """

    # who decides; any planner. It is given the keys that the counting window found hot, one by one, and the rest by
    # partition.
    planner: Planner = field(default_factory=lambda: Smalops(hot_by="listed"))
    # hot_by, hot_threshold: what is hot, see `HotKeyWindow`
    hot_by: str = "share"
    hot_threshold: float = 0.001
    interval_seconds: float = 10.0  # length of a window; decisions fall between two
    # time from the end of a key's messages at the old consumer to the beginning at the new one: the message that says
    # so, and state that moves
    handover_seconds: float = 0.0
    ordered: bool = True  # whether consumers put each key's messages in order, by holding back what comes too early
    count: int = 1  # gateways side by side, each with keys of its own, a counter of its own and decisions of its own

    def __post_init__(self) -> None:
        if not self.interval_seconds > 0:
            raise ArgumentError("interval_seconds must be above 0", got=self.interval_seconds)
        if not self.handover_seconds >= 0:
            raise ArgumentError("handover_seconds must not be negative", got=self.handover_seconds)
        if self.count < 1:
            raise ArgumentError("there is at least one gateway", got=self.count)
        HotKeyWindow(self.hot_by, self.hot_threshold, slots=1)


@dataclass
class _Level:
    """One of the gateways, with what it knows."""

    table: RoutingTable
    window: HotKeyWindow
    memory: Memory = field(default_factory=Memory)


@dataclass(frozen=True, eq=False)
class Routed:
    """Where every message went, in the order of arrival."""

    partition: NDArray[np.int32]  # of each message
    label: NDArray[np.int32]  # its message set; -1 for messages of keys that have not moved yet
    sets: MessageSets  # all message sets
    decisions: list[Decision]  # what was decided at the end of each window


def route(gateway: Gateway, topic: Topic, arrivals: Arrivals) -> Routed:
    """Send every message on its way, and decide at the end of every window from what the window had."""
    hashes = topic.hashes(arrivals.keys)
    sets = MessageSets(hashes, topic.partitions)
    levels = [_Level(*_start(gateway, topic)) for _ in range(gateway.count)]
    partition, label = (np.empty(len(arrivals.keys), np.int32) for _ in range(2))
    free, decisions = np.zeros(topic.partitions), []
    bounds = np.arange(0.0, topic.seconds, gateway.interval_seconds)
    cuts = np.append(np.searchsorted(arrivals.seconds, bounds), len(arrivals.keys))
    for window, now in enumerate(bounds):
        here = slice(cuts[window], cuts[window + 1])
        if window:
            last = slice(cuts[window - 1], cuts[window])
            lag = np.maximum(free - now, 0.0) / topic.message_seconds
            decisions.append(_decide(gateway, levels, hashes[arrivals.keys[last]], float(now), sets, lag))
        partition[here] = _merged(levels).lookup(hashes[arrivals.keys[here]])
        label[here] = sets.set_of_key[arrivals.keys[here]]
        sets.sent += np.bincount(partition[here], minlength=topic.partitions)
        kernel_wait(arrivals.seconds[here], partition[here], topic.message_seconds, free)
    return Routed(partition, label, sets, decisions)


def _start(gateway: Gateway, topic: Topic) -> tuple[RoutingTable, HotKeyWindow]:
    expected = int(topic.messages_per_second * gateway.interval_seconds / gateway.count) + 1
    window = HotKeyWindow(gateway.hot_by, gateway.hot_threshold, slots=topic.partitions, expected_tuples=expected)
    return RoutingTable(topic.partitions, np.arange(topic.partitions, dtype=np.int32)), window


def _decide(
    gateway: Gateway, levels: list[_Level], column: Numbers, now: float, sets: MessageSets, lag: NDArray[np.float64]
) -> Decision:
    """Plan at every gateway, and begin a new message set for every key that moves."""
    started = time.perf_counter()
    use = ChannelUse(gateway.interval_seconds, lag_tuples=lag)
    hot, moves, heavy = [], 0, 0
    of_gateway = np.mod(column >> np.int64(20), gateway.count) if gateway.count > 1 else np.zeros(len(column), np.int8)
    for number, level in enumerate(levels):
        level.window.update(column[of_gateway == number])
        statistics = dataclasses.replace(level.window.close(), use=use)
        plan = gateway.planner.plan(statistics, level.table, memory=level.memory)
        level.table, level.memory = plan.table, plan.memory
        sets.move(plan.moves, now)
        hot.append(len(statistics.hashes))
        moves += len(plan.moves)
        heavy += len(plan.report.unsplittable)
    entries = sum(len(level.table.explicit_hashes) for level in levels)
    seconds = time.perf_counter() - started
    return Decision(now, len(column), sum(hot), max(hot), entries, moves, heavy, seconds)


def _merged(levels: list[_Level]) -> RoutingTable:
    """Return one table with the entries of all gateways, whose keys are disjoint."""
    if len(levels) == 1:
        return levels[0].table
    return levels[0].table.with_explicit(
        np.concatenate([level.table.explicit_hashes for level in levels]),
        np.concatenate([level.table.explicit_channels for level in levels]),
    )
