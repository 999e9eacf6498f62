"""A second, simpler simulator to check the first: no single tuples, only how many lie where.

Buffers are amounts per pair of sites, a tick is a millisecond, a partition is a share of the stream. Valid for equal
partitions and CPU load (Figures 6 and 7 of Flux); knows neither disks nor messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.load.channels import ChannelUse
from unskew.planners.flux.collection import next_collection
from unskew.planners.memory import Memory
from unskew.planners.problem import Problem
from unskew_lab.simulation.setup import Setup
from unskew_lab.simulation.start import initial_owner

Column = NDArray[np.float64]
TICK = 1e-3


@dataclass
class _Move:
    partition: int
    receiver: int
    until: float
    held: Column  # tuples of the partition that each producer holds back


class Fluid:
    """Simulates a setup as flows. Costs O(nodes ** 2) per millisecond.

    >>> run = Fluid(Setup(nodes=4, seconds=2.0)).run()
    >>> round(float(run.mean()) / (4 / 45.5e-6), 2)
    1.0
    """

    def __init__(self, setup: Setup) -> None:
        n = setup.nodes
        self.setup = setup
        self.rng = np.random.default_rng(np.random.SeedSequence(setup.seed).spawn(4)[3])
        self.weights, self.owner = setup.weights(), initial_owner(setup)
        self.pools, self.queues = np.zeros((n, n)), np.zeros((n, n))  # producer, consumer
        self.capacity, self.owed, self.idle, self.taken = np.ones(n), np.zeros(n), np.zeros(n), np.zeros(n)
        self.moves: list[_Move] = []
        self.moved = 0
        self.produced = 0.0
        self.processed = 0.0
        self._collection = setup.shortest_collection_seconds
        self._decided = 0.0
        self._begin(0.0)

    def run(self) -> Column:
        per_second = np.zeros(math.ceil(self.setup.seconds))
        for tick in range(round(self.setup.seconds / TICK)):
            now = tick * TICK
            for slow in self.setup.slowdowns:
                if slow.start_seconds <= now < slow.end_seconds:
                    self.capacity[slow.site] = slow.capacity
            self._produce()
            per_second[int(now + TICK / 2)] += self._consume()
            if self.setup.planner is not None:
                self._control(now)
        held = self.pools.sum() + self.queues.sum() + sum(move.held.sum() for move in self.moves)
        assert math.isclose(self.produced, self.processed + held, rel_tol=1e-9)
        return per_second

    def _shares(self) -> tuple[Column, Column]:
        """Return the share of the stream of each site, and of each partition that is being moved."""
        moving = [move.partition for move in self.moves]
        shares = np.bincount(self.owner, self.weights, self.setup.nodes)
        np.subtract.at(shares, self.owner[moving], self.weights[moving])
        return np.maximum(shares, 0.0), self.weights[moving]

    def _produce(self) -> None:
        n, setup = self.setup.nodes, self.setup
        shares, moving = self._shares()
        law = np.append(shares, moving)
        for _ in range(4):  # what is produced may go straight to a queue, which makes room for more
            self._send()
            held = np.array([move.held for move in self.moves]).reshape(-1, n).sum(axis=0)
            room = np.maximum(setup.held_tuples - self.pools.sum(axis=1) - held, 0.0).astype(np.int64)
            if not room.any():
                break
            made = self.rng.multinomial(room, law / law.sum())
            self.pools += made[:, :n]
            for move, count in zip(self.moves, made[:, n:].T, strict=True):
                move.held += count
            self.produced += float(room.sum())
            self.owed += room * setup.get_next_seconds
        self._send()

    def _send(self) -> None:
        sent = np.minimum(self.pools, self.setup.connection_tuples - self.queues)
        self.pools -= sent
        self.queues += sent

    def _consume(self) -> float:
        """Let every site spend a tick on its queues, alike from all; return the tuples processed."""
        each = self.setup.tuple_seconds
        budget = np.maximum(self.capacity * TICK - self.owed, 0.0)
        self.owed = np.maximum(self.owed - self.capacity * TICK, 0.0)
        waiting = self.queues.sum(axis=0)
        taken = np.minimum(budget / each, waiting)
        self.queues -= self.queues * (taken / np.maximum(waiting, 1e-9))
        self.idle += (budget - taken * each) / self.capacity
        self.taken += taken
        total = float(taken.sum())
        self.processed += total
        return total

    def _control(self, now: float) -> None:
        done = [move for move in self.moves if move.until <= now]
        for move in done:
            self.owner[move.partition] = move.receiver
            self.pools[:, move.receiver] += move.held
        self.moves = [move for move in self.moves if move.until > now]
        if done and not self.moves:
            shortest = self.setup.shortest_collection_seconds
            self._collection = next_collection(self._collection, shortest, now - self._decided)
            self._begin(now)
        elif not self.moves and now >= self._collect_until:
            self._decide(now)

    def _begin(self, now: float) -> None:
        self._idle, self._taken = self.idle.copy(), self.taken.copy()
        self._began = now
        self._collect_until = now + self._collection

    def _decide(self, now: float) -> None:
        """Sample how many tuples of each partition the sites saw, ask the planner, and hold back what moves."""
        setup, n = self.setup, self.setup.nodes
        assert setup.planner is not None
        tuples = np.zeros(setup.partitions)
        for site in range(n):
            own = self.owner == site
            law = self.weights[own] / self.weights[own].sum()
            tuples[own] = self.rng.multinomial(round(float(self.taken[site] - self._taken[site])), law)
        window = max(now - self._began, TICK)
        use = ChannelUse(window, idle_seconds=np.clip(self.idle - self._idle, 0.0, window))
        state = np.full(setup.partitions, setup.state_bytes)
        problem = Problem.of_keys(tuples, channels=n, current=self.owner, home=self.owner, state=state, use=use)
        answer = setup.planner.assign(problem, Memory()).owner
        partitions = np.flatnonzero(answer != self.owner)
        self._decided = now
        if not len(partitions):
            self._collection = next_collection(self._collection, setup.shortest_collection_seconds, None)
            self._begin(now)
            return
        self.moved += len(partitions)
        rate = min(setup.transfer_bits_per_second, setup.cross_section_bits_per_second / len(partitions))
        for p in partitions.tolist():
            donor = int(self.owner[p])
            work = setup.state_tuples * setup.marshal_seconds
            drain = float(self.queues[:, donor].sum()) * setup.tuple_seconds / self.capacity[donor]
            pack = work / self.capacity[donor] + work / self.capacity[answer[p]]
            self.owed[donor] += work
            self.owed[answer[p]] += work
            share = self.weights[p] / self.weights[self.owner == donor].sum()
            held = self.rng.binomial(np.rint(self.pools[:, donor]).astype(np.int64), share).astype(np.float64)
            held = np.minimum(held, self.pools[:, donor])
            self.pools[:, donor] -= held
            until = now + 4 * setup.latency_seconds + drain + pack + 8 * setup.state_bytes / rate
            self.moves.append(_Move(p, int(answer[p]), until, held))
