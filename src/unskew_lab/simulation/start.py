"""The first state of a simulated cluster, and the alias method's tables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew_lab.simulation.dataplane import NONE, DataPlane
from unskew_lab.simulation.setup import Setup


def initial_owner(setup: Setup) -> NDArray[np.int32]:
    """Return the site of each partition at the start: the same number for each site."""
    return (np.arange(setup.partitions) * setup.nodes // setup.partitions).astype(np.int32)


def alias_tables(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Return, for each place, the part of it that stays and where the rest goes (Walker's alias method, Vose's way).

    >>> cut, other = alias_tables(np.array([0.75, 0.25]))
    >>> cut.tolist(), other.tolist()
    ([1.0, 0.5], [0, 0])
    """
    count = len(weights)
    cut, other = np.ones(count), np.arange(count, dtype=np.int32)
    scaled = weights * count / weights.sum()
    small, large = [np.flatnonzero(part).tolist() for part in (scaled < 1, scaled >= 1)]
    while small and large:
        less, more = small.pop(), large.pop()
        cut[less], other[less] = scaled[less], more
        scaled[more] -= 1 - scaled[less]
        (small if scaled[more] < 1 else large).append(more)
    return cut, other


def new_data_plane(setup: Setup, seeds: np.random.SeedSequence) -> DataPlane:
    """Return empty pools and connections; every partition at the site where it starts."""
    n, s, held, room = setup.nodes, setup.partitions, setup.held_tuples, setup.connection_tuples
    cut, other = alias_tables(setup.weights())
    owner = initial_owner(setup)

    def whole(*shape: int, fill: int = 0) -> NDArray[np.int32]:
        return np.full(shape, fill, np.int32)

    free = np.tile(np.append(np.arange(1, held), NONE).astype(np.int32), (n, 1))
    return DataPlane(
        draws=seeds.generate_state(n, np.uint64).astype(np.uint64),
        cut=cut,
        other=other,
        rate=np.full(n, np.inf if setup.source_rate is None else setup.source_rate),
        allowance=np.zeros(n),
        owner=np.tile(owner, (n, 1)),
        stalled=np.zeros((n, s), bool),
        made=whole(n, s),
        pool_next=free,
        pool_free=whole(n),
        pool_used=whole(n),
        pool_number=whole(n, held),
        first=whole(n, s, fill=NONE),
        last=whole(n, s, fill=NONE),
        turn_next=whole(n, s, fill=NONE),
        turn_first=whole(n, n, fill=NONE),
        turn_last=whole(n, n, fill=NONE),
        queue_partition=whole(n, n, room),
        queue_number=whole(n, n, room),
        queue_start=whole(n, n),
        queue_length=whole(n, n),
        waiting=np.zeros(n, np.int64),
        next_input=whole(n),
        ahead=whole(n, n),
        acks_missing=whole(n),
        ack_seconds=np.zeros((n, n)),
        seen=whole(n, s),
        holder=owner.copy(),
        on_disk=np.zeros(s, bool),
        pending=np.zeros(s, np.int64),
        pending_entered=np.zeros(s),
        unwritten=whole(n),
        backlog=whole(n, fill=NONE),
        backlog_done=np.zeros(n, bool),
        capacity=np.ones(n),
        stopped_until=np.zeros(n),
        account=np.zeros(n),
        idle=np.zeros(n),
        taken=np.zeros(s, np.int64),
        processed=np.zeros(s, np.int64),
        latency=np.zeros(n),
        done=np.zeros(n, np.int64),
        blocked=np.zeros(n),
        violation=np.zeros(4, np.int64),
    )
