"""What must hold at every moment of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.errors import SimulationError
from unskew_lab.simulation.dataplane import NONE, DataPlane

if TYPE_CHECKING:
    from unskew_lab.simulation.cluster import Cluster

BROKEN = {
    1: "a tuple was lost, doubled or overtaken",
    2: "a tuple was processed where its partition's state is not",
    3: "tuples of a partition do not add up",
    4: "an open partition was left waiting without need",
    5: "a partition is on a connection after the last ACK",
    6: "a partition has no site, or a site that its producers do not know",
}


class Checks:
    """Raises `SimulationError` if anything is lost, overtaken, owned twice, or held back without need.

    Every tuple carries a number per producer and partition, and the consumer that takes it checks that it is the next
    one and that the partition's state is there: nothing lost, nothing doubled, order kept, single owner. After its
    last tick, a run of the kernel finds no partition whose turn it is beside a connection with room. `all` counts every
    tuple of every partition, wherever it is, and looks for open partitions that are not in line.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.passed = 0

    def flow(self) -> None:
        """Fail if a consumer noticed anything since the last call."""
        what, i, p, number = self.cluster.data.violation.tolist()
        self._require(what == 0, what, f"producer {i}, partition {p}, number {number}")

    def all(self) -> None:
        """Count all tuples; fail if any is missing or held back without need, or a partition has no single owner."""
        c = self.cluster
        self.flow()
        if c.setup.routing != "river":
            pooled, queued, waits = _kernel_count(c.data)
            made, seen = (numbers.astype(np.int64).sum(axis=0) for numbers in (c.data.made, c.data.seen))
            self._same(made, seen + pooled + queued)
            self._same(seen, c.data.processed + c.data.pending)
            self._require(waits == NONE, 4, f"partition {waits}")
        moving = np.zeros(c.setup.partitions, bool)
        moving[[*c.movements.in_flight]] = True
        wrong = np.flatnonzero((c.data.holder == NONE) != moving)
        self._require(len(wrong) == 0, 6, f"partitions {wrong[:5].tolist()}")
        self.passed += 1

    def nothing_queued(self, p: int) -> None:
        """Fail if a tuple of a partition is on any connection."""
        self.flow()
        _, queued, _ = _kernel_count(self.cluster.data)
        self._require(queued[p] == 0, 5, f"partition {p}")

    def _same(self, expected: NDArray[np.int64], found: NDArray[np.int64]) -> None:
        wrong = np.flatnonzero(expected != found)
        self._require(len(wrong) == 0, 3, f"partitions {wrong[:5].tolist()}")

    def _require(self, holds: bool, what: int, where: str) -> None:
        if not holds:
            raise SimulationError(BROKEN[what], where=f"{where}, {self.cluster.now:.4f} s")


@njit(cache=True)
def _kernel_count(d: DataPlane) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return the tuples of each partition in pools and on connections, and one that waits without need, if any."""
    sites, partitions = d.owner.shape
    pooled, queued = np.zeros(partitions, np.int64), np.zeros(partitions, np.int64)
    waits = NONE
    in_turn = np.zeros(partitions, np.bool_)
    for i in range(sites):
        in_turn[:] = False
        for j in range(sites):
            p = d.turn_first[i, j]
            while p != NONE:
                in_turn[p] = True
                p = d.turn_next[i, p]
            start = d.queue_start[j, i]
            for k in range(d.queue_length[j, i]):
                queued[d.queue_partition[j, i, (start + k) % d.queue_partition.shape[2]]] += 1
        for p in range(partitions):
            entry = d.first[i, p]
            if entry != NONE and not d.stalled[i, p] and not in_turn[p]:
                waits = p
            while entry != NONE:
                pooled[p] += 1
                entry = d.pool_next[i, entry]
    return pooled, queued, waits
