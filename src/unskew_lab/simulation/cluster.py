"""A simulated cluster: the data plane, and everything that acts on it, put together."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from unskew_lab.simulation.checks import Checks
from unskew_lab.simulation.clock import Clock, Message
from unskew_lab.simulation.controller import Controller
from unskew_lab.simulation.dataplane import Costs, _kernel_run
from unskew_lab.simulation.disk import Disks
from unskew_lab.simulation.movement import Movements
from unskew_lab.simulation.record import Recorder, Result
from unskew_lab.simulation.setup import TUPLE_BYTES, Setup
from unskew_lab.simulation.start import new_data_plane
from unskew_lab.simulation.transfer import StateMovers

PAGE_BYTES = 65_536


class Cluster(Clock):
    """Sites, controller and state movers on one clock.

    Time advances in ticks for tuples and exactly for messages: an event takes effect at the next tick, and whatever
    follows from it is timed from the event itself.
    """

    def __init__(self, setup: Setup, keep_messages: bool = False) -> None:
        super().__init__()
        self.setup = setup
        self.costs = Costs(
            tick=setup.tick_seconds,
            tuple=setup.tuple_seconds,
            deviation=setup.deviation_seconds,
            get_next=setup.get_next_seconds,
            marshal=setup.marshal_seconds,
            append=setup.seek_seconds + PAGE_BYTES / setup.disk_bytes_per_second,
            append_tuples=PAGE_BYTES // TUPLE_BYTES,
        )
        producers, costs, disks = np.random.SeedSequence(setup.seed).spawn(3)
        self.noise, self.disk_noise = np.random.default_rng(costs), np.random.default_rng(disks)
        self.data = new_data_plane(setup, producers)
        self.ticks = 0
        self.messages: list[Message] = []
        self._keep_messages = keep_messages
        self.movers = StateMovers(self, setup.transfer_bits_per_second, setup.cross_section_bits_per_second)
        self.movements = Movements(self)
        self.disks = Disks(self)
        self.controller = Controller(self)
        self.checks = Checks(self)
        self.recorder = Recorder(self)
        for slow in setup.slowdowns:
            self.at(slow.start_seconds, partial(self._set_capacity, slow.site, slow.capacity))
            if math.isfinite(slow.end_seconds):
                self.at(slow.end_seconds, partial(self._set_capacity, slow.site, 1.0))

    def run(self, progress: Callable[[float], None] | None = None) -> Result:
        """Simulate all seconds; `progress` is called with the time once per simulated second."""
        self._fill_pools()
        self.recorder.note()
        for second in range(1, math.ceil(self.setup.seconds) + 1):
            self._advance(min(float(second), self.setup.seconds))
            self.checks.all()
            self.recorder.note()
            if progress is not None:
                progress(self.now)
        return self.recorder.result()

    def owner(self) -> NDArray[np.int32]:
        """Return the site of each partition, as the first producer knows it."""
        owner: NDArray[np.int32] = self.data.owner[0].copy()
        return owner

    def send(self, kind: str, source: int, target: int, partition: int, handle: Callable[[], object]) -> None:
        """Send a control message; `handle` is called when it arrives."""
        arrival = self.now + self.setup.latency_seconds

        def deliver() -> None:
            self.record_message(arrival, kind, source, target, partition)
            handle()

        self.at(arrival, deliver)

    def record_message(self, seconds: float, kind: str, source: int, target: int, partition: int) -> None:
        if self._keep_messages:
            self.messages.append(Message(round(seconds, 9), kind, source, target, partition))

    def work(self, site: int, cpu_seconds: float) -> float:
        """Charge a site with work on its CPU; return when that is done."""
        self.data.account[site] -= cpu_seconds
        return self.now + cpu_seconds / float(self.data.capacity[site])

    def _advance(self, until: float) -> None:
        """Go on to a time: ticks up to each event, then the event."""
        while True:
            target = min(self.next_seconds, until)
            if self._run_ticks(target):
                continue
            if self.next_seconds > until:
                self.now = until
                return
            self.step()

    def _run_ticks(self, until: float) -> bool:
        """Run the ticks before a time; tell whether a site asked for attention first."""
        stop = math.ceil(until / self.setup.tick_seconds - 1e-6)
        if stop <= self.ticks:
            return False
        river = self.setup.routing == "river"
        self.ticks = _kernel_run(self.data, self.costs, self.noise, river, self.ticks, stop)
        self.now = max(self.now, min(self.ticks * self.setup.tick_seconds, until))
        self.checks.flow()
        attention = False
        for site in [*self.movements.quiescing]:
            if self.data.acks_missing[site] == 0:
                self.movements.last_ack(site)
                attention = True
        for site in np.flatnonzero(self.data.backlog_done).tolist():
            self.data.backlog_done[site] = False
            self.disks.backlog_done(site)
            attention = True
        return attention

    def _set_capacity(self, site: int, capacity: float) -> None:
        self.data.capacity[site] = capacity

    def _fill_pools(self) -> None:
        """Let the producers fill pools and connections before time begins."""
        self.data.stopped_until[:] = np.inf
        ticks = 2 + math.ceil(
            (self.setup.held_tuples + self.setup.nodes * self.setup.connection_tuples)
            * self.setup.get_next_seconds
            / self.setup.tick_seconds
        )
        river = self.setup.routing == "river"
        _kernel_run(self.data, self.costs, self.noise, river, 0, ticks if self.setup.source_rate is None else 0)
        self.data.stopped_until[:] = 0.0
        self.data.account[:] = 0.0
        self.data.blocked[:] = 0.0


def simulate(setup: Setup, progress: Callable[[float], None] | None = None, *, keep_messages: bool = False) -> Result:
    """Run a setup and return what happened.

    >>> run = simulate(Setup(nodes=4, seconds=2.0))
    >>> round(run.mean_throughput() / (4 / 45.5e-6), 2)
    1.0
    """
    return Cluster(setup, keep_messages).run(progress)
