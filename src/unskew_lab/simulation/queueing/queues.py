"""The queues: first come, first served, with messages of moved keys held back until it is their turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew_lab.simulation.queueing.message_sets import MessageSets

Column = NDArray[np.float64]
Channels = NDArray[np.int32]
Numbers = NDArray[np.int64]


@njit(cache=True)
def kernel_wait(arrival: Column, partition: Channels, message_seconds: float, free: Column) -> Column:
    """Return how long each message waits for its consumer; `free`, when consumers are free again, is carried on.

    The closed form for one partition is ``cummax(a_n - n t) + n t - a_n``.
    """
    waits = np.empty(len(arrival))
    for i in range(len(arrival)):
        p = partition[i]
        begin = max(free[p], arrival[i])
        waits[i] = begin - arrival[i]
        free[p] = begin + message_seconds
    return waits


class _Sets(NamedTuple):
    """Message sets and what closes them, as compiled code takes them."""

    partition: Channels
    following: Numbers
    is_open: NDArray[np.bool_]
    marker_set: Numbers
    marker_ahead: Numbers
    marker_seconds: Column
    marker_first: Numbers


class Waits(NamedTuple):
    """What happened to each message, in the order of arrival."""

    broker_seconds: Column  # time in the broker, until the consumer took it
    end_to_end_seconds: Column  # time until the consumer began to process it; longer if it was held
    most_held: int  # messages held by all consumers together, at the most


def consume(
    arrival: Column,
    partition: Channels,
    label: Channels,
    sets: MessageSets,
    *,
    message_seconds: float,
    handover_seconds: float = 0.0,
) -> Waits:
    """Play all consumers, message by message, under the protocol that keeps each key in order.

    A consumer takes messages from its partition in order. One whose set may not begin yet is put aside, which takes no
    time, and others flow on. When the consumer of the set before reaches the marker that closes it, and has worked
    off whatever it had put aside of it, then `handover_seconds` later the new consumer works off what it put aside,
    before it takes anything else, and its set is open from then on. Costs O(messages * partitions).
    """
    columns = sets.columns()
    closed, marker_partition, ahead, when = sets.markers()
    following = np.full(len(sets), -1, np.int64)
    has_previous = np.flatnonzero(columns["previous"] >= 0)
    following[columns["previous"][has_previous]] = has_previous
    consumers = len(sets.sent)
    packed = _Sets(
        columns["partition"].astype(np.int32),
        following,
        columns["previous"] < 0,
        closed,
        ahead,
        when,
        np.searchsorted(marker_partition, np.arange(consumers + 1)).astype(np.int64),
    )
    order = np.argsort(partition.astype(np.int16), kind="stable")
    first = np.append(0, np.cumsum(np.bincount(partition, minlength=consumers))).astype(np.int64)
    taken, begun, most = _kernel_consume(arrival, order, first, label, packed, message_seconds, handover_seconds)
    return Waits(taken - arrival, begun - arrival, int(most))


@njit(cache=True)
def _kernel_consume(
    arrival: Column,
    order: Numbers,
    first: Numbers,
    label: Channels,
    sets: _Sets,
    message_seconds: float,
    handover_seconds: float,
) -> tuple[Column, Column, int]:
    """Return when each message was taken and when it was begun, and the most messages put aside.

    Always the consumer that can act first acts, so that what one tells another is never too late.
    """
    consumers, count = len(first) - 1, len(sets.partition)
    taken, begun = np.full(len(arrival), np.nan), np.full(len(arrival), np.nan)
    head, marker = first[:-1].copy(), sets.marker_first[:-1].copy()
    free, acts = np.zeros(consumers), np.empty(consumers)
    is_closed = np.zeros(count, np.bool_)
    is_open = sets.is_open.copy()
    first_aside, last_aside = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    next_aside = np.full(len(arrival) if count else 0, -1, np.int64)
    release, next_release = np.full(count, np.inf), np.full(count, -1, np.int64)
    first_release, soonest = np.full(consumers, -1, np.int64), np.full(consumers, np.inf)
    held = most = 0
    for p in range(consumers):
        acts[p] = _next_act(p, head, first, arrival, order, marker, sets, free, soonest)
    while True:
        p = int(acts.argmin())
        now = acts[p]
        if now == np.inf:
            return taken, begun, most
        done = -1
        if max(free[p], soonest[p]) <= now:
            g = _pop_release(p, release, first_release, next_release, soonest)
            is_open[g] = True
            i = int(first_aside[g])
            while i >= 0:
                begun[i] = now
                now += message_seconds
                held -= 1
                i = int(next_aside[i])
            free[p] = now
            if is_closed[g]:
                done = g
        elif marker[p] < sets.marker_first[p + 1] and sets.marker_ahead[marker[p]] <= head[p] - first[p]:
            g = int(sets.marker_set[marker[p]])
            marker[p] += 1
            is_closed[g] = True
            if is_open[g]:
                done = g
        else:
            i = int(order[head[p]])
            head[p] += 1
            taken[i] = now
            g = int(label[i])
            if g < 0 or is_open[g]:
                begun[i] = now
                free[p] = now + message_seconds
            else:
                if first_aside[g] < 0:
                    first_aside[g] = i
                else:
                    next_aside[last_aside[g]] = i
                last_aside[g] = i
                held += 1
                most = max(most, held)
        if done >= 0:
            g = int(sets.following[done])
            q = sets.partition[g]
            release[g] = now + handover_seconds
            next_release[g] = first_release[q]
            first_release[q] = g
            soonest[q] = min(soonest[q], release[g])
            acts[q] = _next_act(q, head, first, arrival, order, marker, sets, free, soonest)
        acts[p] = _next_act(p, head, first, arrival, order, marker, sets, free, soonest)


@njit(cache=True)
def _next_act(
    p: int,
    head: Numbers,
    first: Numbers,
    arrival: Column,
    order: Numbers,
    marker: Numbers,
    sets: _Sets,
    free: Column,
    soonest: Column,
) -> float:
    """Return when a consumer can act next: take a message, meet a marker, or work off what it put aside."""
    act = soonest[p]
    if marker[p] < sets.marker_first[p + 1] and sets.marker_ahead[marker[p]] <= head[p] - first[p]:
        act = min(act, sets.marker_seconds[marker[p]])
    elif head[p] < first[p + 1]:
        act = min(act, arrival[order[head[p]]])
    return float(max(free[p], act))


@njit(cache=True)
def _pop_release(p: int, release: Column, first_release: Numbers, next_release: Numbers, soonest: Column) -> int:
    """Take the set that was released first off a consumer's list."""
    best, before_best, before, g = -1, -1, -1, first_release[p]
    while g >= 0:
        if best < 0 or release[g] <= release[best]:  # of equal ones the older, which stands further back
            best, before_best = g, before
        before, g = g, next_release[g]
    if before_best < 0:
        first_release[p] = next_release[best]
    else:
        next_release[before_best] = next_release[best]
    soonest[p] = np.inf
    g = first_release[p]
    while g >= 0:
        soonest[p] = min(soonest[p], release[g])
        g = next_release[g]
    return best
