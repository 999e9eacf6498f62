"""The protocol by which a partition and its state change sites while everything else goes on."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from numba import njit

from unskew_lab.simulation.clock import CONTROLLER
from unskew_lab.simulation.dataplane import NONE, DataPlane, acknowledge, line_up

if TYPE_CHECKING:
    from unskew_lab.simulation.cluster import Cluster


class Movements:
    """Moves partitions: MOVE, PAUSE, ACK, the state itself, RESTART.

    The donor goes on processing while it waits for the ACK of every producer, each of which comes behind the tuples
    sent before it; so when the last one is there, no tuple of the partition is on its way, and the state is final.
    Meanwhile producers keep the partition's new tuples in their pools. A site takes part in one movement at a time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.quiescing: dict[int, tuple[int, int]] = {}
        self.in_flight: set[int] = set()

    def begin(self, partition: int, donor: int, receiver: int) -> None:
        c, p = self.cluster, partition
        c.send(
            "MOVE", CONTROLLER, donor, p, lambda: c.disks.when_free(donor, lambda: self._quiesce(p, donor, receiver))
        )
        c.send("MOVE", CONTROLLER, receiver, p, lambda: None)

    def _quiesce(self, p: int, donor: int, receiver: int) -> None:
        """Bring the partition into memory if need be, then ask all producers to hold its tuples back."""
        self.cluster.disks.claim(donor, p, lambda: self._pause_all(p, donor, receiver))

    def _pause_all(self, p: int, donor: int, receiver: int) -> None:
        c = self.cluster
        self.quiescing[donor] = (p, receiver)
        c.data.acks_missing[donor] = c.setup.nodes
        for i in range(c.setup.nodes):
            c.send("PAUSE", donor, i, p, partial(self._pause, i, p, donor))

    def _pause(self, i: int, p: int, donor: int) -> None:
        c = self.cluster
        if _kernel_pause(c.data, i, p, donor) == 0:
            c.at(c.now + c.setup.latency_seconds, lambda: self._acknowledge(i, donor))

    def _acknowledge(self, i: int, donor: int) -> None:
        if acknowledge(self.cluster.data, donor, i, self.cluster.now):
            self.last_ack(donor)

    def last_ack(self, donor: int) -> None:
        """Take the state out of the donor and send it; nothing of the partition is on any connection any more."""
        c = self.cluster
        p, receiver = self.quiescing.pop(donor)
        for i in range(c.setup.nodes):
            c.record_message(float(c.data.ack_seconds[donor, i]), "ACK", i, donor, p)
        c.checks.nothing_queued(p)
        self.in_flight.add(p)
        c.data.holder[p] = NONE
        packed = c.work(donor, c.setup.state_tuples * c.setup.marshal_seconds)
        c.disks.release(donor, p)
        c.at(packed, lambda: c.movers.send(c.setup.state_bytes, lambda: self._arrived(p, donor, receiver)))

    def _arrived(self, p: int, donor: int, receiver: int) -> None:
        c = self.cluster
        c.record_message(c.now, "STATE", donor, receiver, p)
        c.disks.when_free(receiver, lambda: self._install(p, donor, receiver))

    def _install(self, p: int, donor: int, receiver: int) -> None:
        c = self.cluster
        unpacked = c.work(receiver, c.setup.state_tuples * c.setup.marshal_seconds)
        c.at(unpacked, lambda: self._installed(p, donor, receiver))

    def _installed(self, p: int, donor: int, receiver: int) -> None:
        c = self.cluster
        c.data.holder[p] = receiver
        self.in_flight.discard(p)
        c.disks.add(receiver, p)
        for i in range(c.setup.nodes):
            c.send("RESTART", receiver, i, p, partial(_kernel_restart, c.data, i, p, receiver))
        c.send("RESTART", receiver, CONTROLLER, p, lambda: c.controller.moved(donor, receiver))


@njit(cache=True)
def _kernel_pause(d: DataPlane, i: int, p: int, donor: int) -> int:
    """Let producer i hold p's tuples back; return how many tuples are ahead of its ACK."""
    d.stalled[i, p] = True
    before, other = NONE, d.turn_first[i, donor]
    while other not in (NONE, p):
        before, other = other, d.turn_next[i, other]
    if other == p:
        after = d.turn_next[i, p]
        if before == NONE:
            d.turn_first[i, donor] = after
        else:
            d.turn_next[i, before] = after
        if after == NONE:
            d.turn_last[i, donor] = before
    d.ahead[donor, i] = d.queue_length[donor, i]
    return int(d.queue_length[donor, i])


@njit(cache=True)
def _kernel_restart(d: DataPlane, i: int, p: int, receiver: int) -> None:
    d.owner[i, p] = receiver
    d.stalled[i, p] = False
    if d.first[i, p] != NONE:
        line_up(d, i, receiver, p)
