"""What a run leaves behind: figures per second, rounds, messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unskew.routing.table import RoutingTable
from unskew_lab.simulation.clock import Message
from unskew_lab.simulation.setup import Setup

if TYPE_CHECKING:
    from unskew_lab.simulation.cluster import Cluster

Column = NDArray[np.float64]


@dataclass(frozen=True)
class RoundRecord:
    """A round of the controller: when it decided, after how long a collection, what it moved and how long that took."""

    seconds: float
    collection_seconds: float
    move_seconds: float
    moves: tuple[tuple[int, int, int], ...]
    utilisation: tuple[float, ...]
    excess_bytes: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Result:
    """What happened in a run; columns have one entry per simulated second."""

    setup: Setup
    throughput: Column  # tuples processed
    latency_seconds: Column  # mean time from entering a consumer to being processed
    on_disk: Column  # partitions on disk at the end of the second
    moved_bytes: Column  # state sent by then
    pool_share: Column  # how full the producers' pools are, in 0..1
    blocked_share: Column  # part of the time in which producers could neither produce nor send
    busy_share: Column  # part of the time in which each consumer had input; one row per second, one column per site
    # rounds, messages: of the controller and of the protocol; messages only where they were asked for
    rounds: tuple[RoundRecord, ...]
    messages: tuple[Message, ...]
    table: RoutingTable  # who owns which partition at the end
    checks: int  # how often all invariants were found to hold

    @property
    def moves(self) -> int:
        return sum(len(each.moves) for each in self.rounds)

    def mean_throughput(self, first_second: int = 0, last_second: int | None = None) -> float:
        return float(self.throughput[first_second:last_second].mean())

    def totals(self) -> dict[str, float]:
        return {
            "throughput": self.mean_throughput(),
            "throughput_at_the_end": float(self.throughput[-5:].mean()),
            "latency_microseconds": 1e6 * float(np.average(self.latency_seconds, weights=self.throughput + 1e-9)),
            "moves": float(self.moves),
            "moved_megabytes": float(self.moved_bytes[-1]) / 1e6,
            "rounds": float(len(self.rounds)),
            "on_disk_at_the_end": float(self.on_disk[-1]),
            "checks": float(self.checks),
        }


@dataclass
class Recorder:
    """Notes the counters once per simulated second."""

    cluster: Cluster
    rows: list[tuple[float, ...]] = field(default_factory=list)
    busy: list[Column] = field(default_factory=list)

    def note(self) -> None:
        d = self.cluster.data
        pool = float(d.pool_used.sum()) / d.pool_next.size
        done, latency = float(d.done.sum()), float(d.latency.sum())
        spilled, sent = float(d.on_disk.sum()), self.cluster.movers.bytes_sent
        self.rows.append((done, latency, spilled, sent, pool, float(d.blocked.mean())))
        self.busy.append(d.idle.copy())

    def result(self) -> Result:
        c = self.cluster
        done, latency, on_disk, moved, pool, blocked = np.array(self.rows).T
        processed = np.diff(done)
        return Result(
            setup=c.setup,
            throughput=processed,
            latency_seconds=np.diff(latency) / np.maximum(processed, 1),
            on_disk=on_disk[1:],
            moved_bytes=moved[1:],
            pool_share=pool[1:],
            blocked_share=np.diff(blocked),
            busy_share=1 - np.diff(np.array(self.busy), axis=0),
            rounds=tuple(c.controller.rounds),
            messages=tuple(sorted(c.messages)),
            table=RoutingTable(c.setup.nodes, c.owner()),
            checks=c.checks.passed,
        )
