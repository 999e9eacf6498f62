"""The controller: collects, asks a planner, has partitions moved, and begins again."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unskew.load.channels import ChannelUse
from unskew.planners.flux.collection import next_collection
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew_lab.simulation.record import RoundRecord

if TYPE_CHECKING:
    from unskew_lab.simulation.cluster import Cluster


class Controller:
    """Runs rounds with any planner of the registry.

    To the planner, a partition is a key: its tuples are those of the collection, its cost the CPU seconds they took
    where it lives, its state that of the partition. Flux's planners move at most one partition per site and round;
    others may move many, which then wait for each other, so that no site takes part in two movements at once.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rounds: list[RoundRecord] = []
        self._collection = cluster.setup.shortest_collection_seconds
        self._memory = Memory()
        self._home = cluster.owner()
        if cluster.setup.planner is not None:
            cluster.at(0.0, self._begin)

    def _begin(self) -> None:
        c = self.cluster
        c.at(c.now + c.setup.latency_seconds, self._start_collection)

    def _start_collection(self) -> None:
        c = self.cluster
        self._began = c.ticks
        self._idle, self._taken = c.data.idle.copy(), c.data.taken.copy()
        c.at(c.now + self._collection, self._end_collection)

    def _end_collection(self) -> None:
        """Note the counters; a site in the middle of I/O replies when that ends."""
        c = self.cluster
        self._missing = c.setup.nodes
        for site in range(c.setup.nodes):
            c.disks.when_free(site, self._reply)

    def _reply(self) -> None:
        c = self.cluster
        self._missing -= 1
        if self._missing == 0:
            c.at(c.now + c.setup.latency_seconds, self._decide)

    def _decide(self) -> None:
        c, setup = self.cluster, self.cluster.setup
        assert setup.planner is not None
        owner, window = c.owner(), max(1, c.ticks - self._began) * setup.tick_seconds
        use = ChannelUse(
            window_seconds=window,
            idle_seconds=np.clip(c.data.idle - self._idle, 0.0, window),
            memory_bytes=c.disks.memory_bytes.copy(),
            spilled=c.data.on_disk | (c.data.pending > 0),
        )
        problem = self._problem(owner, use)
        answer = setup.planner.assign(problem, self._memory)
        self._memory = answer.memory
        self._moves = [
            (int(p), int(owner[p]), int(answer.owner[p])) for p in np.flatnonzero(answer.owner != owner).tolist()
        ]
        self._use, self._decided, self._collected = use, c.now, self._collection
        if not self._moves:
            self._collection = next_collection(self._collection, setup.shortest_collection_seconds, None)
            self._begin()
            return
        self._waiting = deque(self._moves)
        self._outstanding, self._taking_part = len(self._moves), set[int]()
        self._issue()

    def _problem(self, owner: NDArray[np.int32], use: ChannelUse) -> Problem:
        c = self.cluster
        tuples = (c.data.taken - self._taken).astype(np.float64)
        per_site = np.bincount(owner, tuples, c.setup.nodes)
        utilisation = use.utilisation
        assert utilisation is not None
        seconds = utilisation * use.window_seconds / np.maximum(per_site, 1.0)
        return Problem.of_keys(
            tuples * seconds[owner],
            channels=c.setup.nodes,
            current=owner,
            home=self._home,
            tuples=tuples,
            state=np.full(len(owner), c.setup.state_bytes),
            use=use,
        )

    def _issue(self) -> None:
        left: deque[tuple[int, int, int]] = deque()
        for p, donor, receiver in self._waiting:
            if {donor, receiver} & self._taking_part:
                left.append((p, donor, receiver))
                continue
            self._taking_part |= {donor, receiver}
            self.cluster.movements.begin(p, donor, receiver)
        self._waiting = left

    def moved(self, donor: int, receiver: int) -> None:
        """Take note of a movement that has ended; the last one ends the round."""
        c = self.cluster
        self._taking_part -= {donor, receiver}
        self._outstanding -= 1
        if self._outstanding:
            self._issue()
            return
        took = c.now - self._decided
        self.rounds.append(self._round(took))
        c.checks.all()
        self._collection = next_collection(self._collection, c.setup.shortest_collection_seconds, took)
        self._begin()

    def _round(self, took: float) -> RoundRecord:
        use, size = self._use, self.cluster.setup.state_bytes
        assert use.utilisation is not None
        assert use.memory_bytes is not None
        held = np.bincount(self.cluster.owner(), minlength=self.cluster.setup.nodes) * size
        return RoundRecord(
            seconds=self._decided,
            collection_seconds=self._collected,
            move_seconds=took,
            moves=tuple(self._moves),
            utilisation=tuple(use.utilisation.tolist()),
            excess_bytes=tuple((use.memory_bytes - held).tolist()),
        )
