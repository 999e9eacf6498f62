"""Where the tuples are: pools, connections and consumers of a simulated cluster, moved on tick by tick.

One kernel for Exchange and Flux: an Exchange is a Flux whose producers hold one tuple in hand instead of a pool.
Nothing here knows of messages, rounds or disks; those act between two calls of `_kernel_run` through the arrays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int = NDArray[np.int32]
Long = NDArray[np.int64]
Real = NDArray[np.float64]
Flag = NDArray[np.bool_]

NONE = -1
GAMMA, MIX_1, MIX_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

# Kernels that allocate nothing need no reference counts; counting those of some forty arrays at every call of a
# helper made a run thirty times slower.
uncounted: Any = njit(cache=True, _nrt=False)  # type: ignore[call-overload]


class Costs(NamedTuple):
    """What things take, in seconds of one CPU (`append` in seconds of the disk)."""

    tick: float
    tuple: float
    deviation: float
    get_next: float
    marshal: float
    append: float
    append_tuples: int


class DataPlane(NamedTuple):
    """All tuples and counters. Index i is a producer, j a consumer, p a partition; both live on site i = j."""

    draws: NDArray[np.uint64]  # i: state of the producer's random numbers
    cut: Real  # p: alias method: keep p if the draw is below
    other: Int  # p: otherwise take this one
    rate: Real  # i: tuples per second that the source has; infinite if it saturates
    allowance: Real  # i: tuples it may produce by now
    owner: Int  # i, p: where i sends p
    stalled: Flag  # i, p: p is being moved, i holds its tuples back
    made: Int  # i, p: sequence number of the last tuple produced
    pool_next: Int  # i, entry: next tuple of the same partition, or next free entry
    pool_free: Int  # i: first free entry
    pool_used: Int  # i: tuples in the pool
    pool_number: Int  # i, entry: sequence number
    first: Int  # i, p: oldest tuple of p in the pool
    last: Int  # i, p: youngest
    turn_next: Int  # i, p: whose turn it is after p, among open partitions with tuples for the same site
    turn_first: Int  # i, j: whose turn it is
    turn_last: Int  # i, j: who comes last
    queue_partition: Int  # j, i, place: ring of tuples on the connection i -> j
    queue_number: Int  # j, i, place: their sequence numbers
    queue_start: Int  # j, i
    queue_length: Int  # j, i
    waiting: Long  # j: tuples on all connections to j
    next_input: Int  # j: connection to look at next
    ahead: Int  # j, i: tuples still ahead of an ACK on the connection; 0 if there is none
    acks_missing: Int  # j
    ack_seconds: Real  # j, i: when the last ACK arrived
    seen: Int  # i, p: sequence number of the last tuple that a consumer took
    holder: Int  # p: the site that holds p's state; NONE while it is in flight
    on_disk: Flag  # p
    pending: Long  # p: tuples written to disk because p was there
    pending_entered: Real  # p: sum of the times at which they arrived
    unwritten: Int  # j: tuples in the page that is to be appended to the disk next
    backlog: Int  # j: partition whose pending tuples are being worked off
    backlog_done: Flag  # j: that has just ended
    capacity: Real  # j: share of the CPU left to the query
    stopped_until: Real  # j: synchronous I/O until then
    account: Real  # j: CPU seconds to spend; negative if spent already
    idle: Real  # j: seconds without input
    taken: Long  # p: tuples that a consumer took
    processed: Long  # p
    latency: Real  # j: sum over all tuples processed
    done: Long  # j: tuples processed
    blocked: Real  # i: seconds in which the producer could neither produce nor send
    violation: Long  # what, producer, partition, number


@uncounted
def _kernel_run(d: DataPlane, costs: Costs, noise: np.random.Generator, river: bool, start: int, stop: int) -> int:
    """Run ticks `start` to `stop`; return where it ended: earlier if a site needs attention or an invariant broke."""
    sites, end = len(d.capacity), stop
    for tick in range(start, stop):
        now = tick * costs.tick
        attention = False
        for turn in range(sites):
            site = (turn + tick) % sites
            attention |= _consume(d, costs, noise, site, now)
        for turn in range(sites):
            site = (turn + tick) % sites
            if river:
                _produce_anywhere(d, costs, site)
            else:
                _produce(d, costs, site)
        if attention or d.violation[0] != 0:
            end = tick + 1
            break
    for i in range(sites):
        for j in range(sites):
            if d.turn_first[i, j] != NONE and d.queue_length[j, i] < d.queue_partition.shape[2]:
                _report(d, 4, i, d.turn_first[i, j], 0)
    return end


@uncounted
def _consume(d: DataPlane, costs: Costs, noise: np.random.Generator, j: int, now: float) -> bool:
    """Let a consumer spend a tick: backlog first, then its inputs in turn; what is left over is idle time."""
    running = costs.tick - min(max(d.stopped_until[j] - now, 0.0), costs.tick)
    if running <= 0:
        return False
    d.account[j] += running * d.capacity[j]
    attention, processed = False, 0
    while d.account[j] > 0:
        if d.backlog[j] != NONE:
            p = d.backlog[j]
            d.latency[j] += now - d.pending_entered[p] / d.pending[p]
            d.pending_entered[p] -= d.pending_entered[p] / d.pending[p]
            d.pending[p] -= 1
            if d.pending[p] == 0:
                d.pending_entered[p] = 0.0
                d.backlog[j], d.backlog_done[j], attention = NONE, True, True
        elif d.waiting[j] > 0:
            p, acked = _take(d, j, now)
            attention |= acked
            if d.on_disk[p]:
                _put_aside(d, costs, j, p, now)
                continue
        else:
            d.idle[j] += d.account[j] / d.capacity[j]
            d.account[j] = 0.0
            break
        d.account[j] -= costs.tuple
        d.latency[j] += costs.tuple / d.capacity[j]
        d.processed[p] += 1
        processed += 1
    if processed:
        d.done[j] += processed
        d.account[j] -= costs.deviation * np.sqrt(processed) * noise.standard_normal()
    return attention


@uncounted
def _take(d: DataPlane, j: int, now: float) -> tuple[int, bool]:
    """Take the next tuple off a connection; return its partition, and whether j has all ACKs now."""
    i = d.next_input[j]
    sites = len(d.capacity)
    while d.queue_length[j, i] == 0:
        i = i + 1 if i + 1 < sites else 0
    d.next_input[j] = i + 1 if i + 1 < sites else 0
    start = d.queue_start[j, i]
    p, number = d.queue_partition[j, i, start], d.queue_number[j, i, start]
    d.queue_start[j, i] = start + 1 if start + 1 < d.queue_partition.shape[2] else 0
    d.queue_length[j, i] -= 1
    d.waiting[j] -= 1
    if number != d.seen[i, p] + 1:
        _report(d, 1, i, p, number)
    if d.holder[p] != j:
        _report(d, 2, i, p, number)
    d.seen[i, p] = number
    d.taken[p] += 1
    acked = False
    if d.ahead[j, i] > 0:
        d.ahead[j, i] -= 1
        if d.ahead[j, i] == 0:
            acked = acknowledge(d, j, i, now)
    return p, acked


@uncounted
def acknowledge(d: DataPlane, j: int, i: int, now: float) -> bool:
    """Count the ACK of producer i at site j; tell whether it was the last one missing."""
    d.ack_seconds[j, i] = now
    d.acks_missing[j] -= 1
    return bool(d.acks_missing[j] == 0)


@uncounted
def _put_aside(d: DataPlane, costs: Costs, j: int, p: int, now: float) -> None:
    """Write a tuple of a partition on disk to the disk as well, page by page."""
    d.pending[p] += 1
    d.pending_entered[p] += now
    d.account[j] -= costs.marshal
    d.unwritten[j] += 1
    if d.unwritten[j] >= costs.append_tuples:
        d.unwritten[j] = 0
        d.account[j] -= costs.append * d.capacity[j]


@uncounted
def _produce(d: DataPlane, costs: Costs, i: int) -> None:
    """Send what connections can accept, then produce until the pool is full, sending on what goes through."""
    sites, moved = len(d.capacity), False
    for j in range(sites):
        moved |= _send(d, i, j)
    limit = _production_limit(d, costs, i)
    made = 0
    while d.pool_used[i] < d.pool_next.shape[1] and made < limit:
        p = _draw(d, i)
        _insert(d, i, p)
        made += 1
        if not d.stalled[i, p]:
            _send(d, i, d.owner[i, p])
    _charge(d, costs, i, made)
    if not moved and made == 0 and d.pool_used[i] > 0:
        d.blocked[i] += costs.tick


@uncounted
def _produce_anywhere(d: DataPlane, costs: Costs, i: int) -> None:
    """Produce until all connections are full, each tuple to a site drawn by how empty its connection is (RiverDQ)."""
    sites, room = len(d.capacity), d.queue_partition.shape[2]
    limit = _production_limit(d, costs, i)
    free = sites * room - d.queue_length[:, i].sum()
    made = 0
    while made < limit and free > 0:
        place = _uniform(d, i) * free
        j = 0
        while j < sites - 1 and place >= room - d.queue_length[j, i]:
            place -= room - d.queue_length[j, i]
            j += 1
        if d.queue_length[j, i] < room:
            d.made[i, j] += 1
            _push(d, i, j, j, d.made[i, j])
            free -= 1
            made += 1
    _charge(d, costs, i, made)
    if made == 0 and free == 0:
        d.blocked[i] += costs.tick


@uncounted
def _production_limit(d: DataPlane, costs: Costs, i: int) -> int:
    """Return how many tuples a producer can get within a tick."""
    d.allowance[i] = min(d.allowance[i] + d.rate[i] * costs.tick, d.capacity[i] * costs.tick / costs.get_next)
    return int(d.allowance[i])


@uncounted
def _charge(d: DataPlane, costs: Costs, i: int, made: int) -> None:
    d.allowance[i] -= made
    d.account[i] -= made * costs.get_next


@uncounted
def _send(d: DataPlane, i: int, j: int) -> bool:
    """Send to a site while its connection accepts, one tuple of each partition in turn; tell whether any went."""
    sent = False
    while d.queue_length[j, i] < d.queue_partition.shape[2] and d.turn_first[i, j] != NONE:
        p = d.turn_first[i, j]
        entry = d.first[i, p]
        _push(d, i, j, p, d.pool_number[i, entry])
        d.first[i, p] = d.pool_next[i, entry]
        d.pool_next[i, entry] = d.pool_free[i]
        d.pool_free[i] = entry
        d.pool_used[i] -= 1
        d.turn_first[i, j] = d.turn_next[i, p]
        if d.turn_first[i, j] == NONE:
            d.turn_last[i, j] = NONE
        if d.first[i, p] != NONE:
            line_up(d, i, j, p)
        sent = True
    return sent


@uncounted
def _push(d: DataPlane, i: int, j: int, p: int, number: int) -> None:
    place = d.queue_start[j, i] + d.queue_length[j, i]
    if place >= d.queue_partition.shape[2]:
        place -= d.queue_partition.shape[2]
    d.queue_partition[j, i, place] = p
    d.queue_number[j, i, place] = number
    d.queue_length[j, i] += 1
    d.waiting[j] += 1


@uncounted
def _insert(d: DataPlane, i: int, p: int) -> None:
    """Put a new tuple into the pool behind all others of its partition."""
    entry = d.pool_free[i]
    d.pool_free[i] = d.pool_next[i, entry]
    d.pool_used[i] += 1
    d.made[i, p] += 1
    d.pool_number[i, entry] = d.made[i, p]
    d.pool_next[i, entry] = NONE
    if d.first[i, p] == NONE:
        d.first[i, p] = entry
        if not d.stalled[i, p]:
            line_up(d, i, d.owner[i, p], p)
    else:
        d.pool_next[i, d.last[i, p]] = entry
    d.last[i, p] = entry


@uncounted
def line_up(d: DataPlane, i: int, j: int, p: int) -> None:
    """Let a partition wait for its turn to be sent to a site."""
    d.turn_next[i, p] = NONE
    if d.turn_first[i, j] == NONE:
        d.turn_first[i, j] = p
    else:
        d.turn_next[i, d.turn_last[i, j]] = p
    d.turn_last[i, j] = p


@uncounted
def _draw(d: DataPlane, i: int) -> int:
    """Draw a partition by its weight: alias method."""
    place = _uniform(d, i) * len(d.cut)
    p = int(place)
    return p if place - p < d.cut[p] else d.other[p]


@uncounted
def _uniform(d: DataPlane, i: int) -> float:
    """Draw from [0, 1): SplitMix64."""
    d.draws[i] += GAMMA
    z = d.draws[i]
    z = (z ^ (z >> np.uint64(30))) * MIX_1
    z = (z ^ (z >> np.uint64(27))) * MIX_2
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@uncounted
def _report(d: DataPlane, what: int, i: int, p: int, number: int) -> None:
    if d.violation[0] == 0:
        d.violation[0], d.violation[1], d.violation[2], d.violation[3] = what, i, p, number
