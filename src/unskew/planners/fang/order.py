"""The items of each channel in descending order, sorted only as far as somebody looks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Column = NDArray[np.float64]
Positions = NDArray[np.int64]

_SMALL = 24
_PIVOTS = 64


class Items(NamedTuple):
    """What is placed: keys, or records that each stand for several keys alike."""

    cost: Column
    state: Column
    current: Ids
    home: Ids
    copies: Ids


class Order(NamedTuple):
    """Items grouped by channel; within a channel by descending value, ties by ascending id.

    A channel's values are filled in when it is first looked at, and its items are put into place by incremental
    quicksort: looking at the first m of n costs O(n + m log m) in all, whatever the looks in between.

    Parameters
    ----------
    ids, values
        Items and what they are ordered by; channel c has ``start[c]:start[c + 1]``.
    ready
        Per channel, how many leading items are in their final place; -1 before the values are filled in.
    pivots, depth
        Per channel, the stack of positions that are in place already, the nearest on top.
    exponent
        Values are ``cost ** exponent / state``; if it is NaN, the cost alone.
    """

    ids: Ids
    values: Column
    start: Positions
    ready: Positions
    pivots: Positions
    depth: Positions
    exponent: float

    @classmethod
    def of_groups(cls, ids: Ids, start: Positions, exponent: float = np.nan) -> Order:
        """Return the order, not yet looked at, of items that are grouped already."""
        channels = len(start) - 1
        return cls(
            ids.copy(),
            np.empty(len(ids)),
            start,
            np.full(channels, -1, np.int64),
            np.empty((channels, _PIVOTS), np.int64),
            np.zeros(channels, np.int64),
            float(exponent),
        )


@njit(cache=True)
def _kernel_group(ids: Ids, channel_of: NDArray[np.int32], channels: int) -> tuple[Ids, Positions]:
    """Group `ids` by ``channel_of`` (one entry per id), keeping their order within a channel."""
    start = np.zeros(channels + 1, np.int64)
    for channel in channel_of:
        start[channel + 1] += 1
    for channel in range(channels):
        start[channel + 1] += start[channel]
    free = start.copy()
    grouped = np.empty(len(ids), np.int32)
    for i in range(len(ids)):
        channel = channel_of[i]
        grouped[free[channel]] = ids[i]
        free[channel] += 1
    return grouped, start


@njit(cache=True)
def _kernel_sort_small(ids: Ids, values: Column, first: int, end: int) -> None:
    for i in range(first + 1, end):
        item, value = ids[i], values[i]
        j = i - 1
        while j >= first and (values[j] < value or (values[j] == value and ids[j] > item)):
            ids[j + 1], values[j + 1] = ids[j], values[j]
            j -= 1
        ids[j + 1], values[j + 1] = item, value


@njit(cache=True)
def _kernel_partition(ids: Ids, values: Column, first: int, end: int) -> int:
    """Split ``first:end`` at the median of three; returns where that median now stands, in its final place."""
    middle = (first + end) // 2
    for a, b in ((first, middle), (middle, end - 1), (first, middle)):
        if values[a] < values[b] or (values[a] == values[b] and ids[a] > ids[b]):
            ids[a], ids[b] = ids[b], ids[a]
            values[a], values[b] = values[b], values[a]
    pivot, level = ids[middle], values[middle]
    ids[middle], values[middle] = ids[end - 2], values[end - 2]
    ids[end - 2], values[end - 2] = pivot, level
    left, right = first, end - 2
    while True:
        left += 1
        while values[left] > level or (values[left] == level and ids[left] < pivot):
            left += 1
        right -= 1
        while values[right] < level or (values[right] == level and ids[right] > pivot):
            right -= 1
        if left >= right:
            break
        ids[left], ids[right] = ids[right], ids[left]
        values[left], values[right] = values[right], values[left]
    ids[end - 2], values[end - 2] = ids[left], values[left]
    ids[left], values[left] = pivot, level
    return left


@njit(cache=True)
def _kernel_advance(order: Order, channel: int) -> None:
    """Put at least one more item of `channel` into its final place; there must be one."""
    ids, values = order.ids, order.values
    start, end = order.start[channel], order.start[channel + 1]
    first = start + order.ready[channel]
    depth = order.depth[channel]
    top = order.pivots[channel, depth - 1] if depth > 0 else end
    while top - first > _SMALL:
        top = _kernel_partition(ids, values, first, top)
        if depth < _PIVOTS:
            order.pivots[channel, depth] = top
            depth += 1
    _kernel_sort_small(ids, values, first, top)
    if depth > 0 and order.pivots[channel, depth - 1] == top:
        depth -= 1
    order.depth[channel] = depth
    order.ready[channel] = min(top + 1, end) - start


@njit(cache=True)
def _kernel_priority(cost: float, state: float, exponent: float) -> float:
    """Return Fang's gamma; what costs nothing comes last, what has no state first."""
    if cost == 0.0:
        return 0.0
    if state == 0.0:
        return np.inf
    return float(cost * np.sqrt(cost) if exponent == 1.5 else cost**exponent) / state


@njit(cache=True)
def _kernel_look(order: Order, items: Items, channel: int, position: int) -> int:
    """Return which item of `channel` stands at `position`, or -1 behind the last."""
    start, end = order.start[channel], order.start[channel + 1]
    if position >= end - start:
        return -1
    if order.ready[channel] < 0:
        by_cost = np.isnan(order.exponent)
        for i in range(start, end):
            x = order.ids[i]
            cost = items.cost[x]
            order.values[i] = cost if by_cost else _kernel_priority(cost, items.state[x], order.exponent)
        order.ready[channel] = 0
    while order.ready[channel] <= position:
        _kernel_advance(order, channel)
    return int(order.ids[start + position])
