"""The members of each channel in descending order, sorted only as far as somebody looks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.planners.problem import Column

Array = NDArray[Any]
Ids = NDArray[np.int32]
Positions = NDArray[np.int64]

START, END, READY, DEPTH, PIVOTS = range(5)  # columns of an order's marks; the stack of pivots takes the rest
_ROOM = 64
_SMALL = 24


class Items(NamedTuple):
    """What is placed: keys, or records that each stand for several keys."""

    cost: Column
    state: Column
    current: Ids
    home: Ids
    copies: Ids

    @classmethod
    def of(cls, cost: Array, state: Array, current: Array, home: Array, copies: Array | None = None) -> Items:
        """Return the columns in the one form for which the kernels are compiled; by default one copy of each item."""
        if copies is None:
            copies = np.ones(len(cost), np.int32)
        columns, kinds = (cost, state, current, home, copies), (np.float64, np.float64, np.int32, np.int32, np.int32)
        return cls(*(np.require(c, kind, ["C", "W"]) for c, kind in zip(columns, kinds, strict=True)))


class Order(NamedTuple):
    """Items grouped into segments; within a segment by descending value, ties by ascending id.

    The values of a segment are filled in when it is first looked at, and its items are put into place by incremental
    quicksort: looking at the first m of n costs O(n + m log m) in all, however the looks are spread. The marks of a
    segment are where it starts and ends, how many leading items are in their final place (-1 before the values are
    filled in), and a stack of positions that are in place already, the nearest on top.
    """

    ids: Ids
    values: Column  # what the items are ordered by
    marks: Positions
    exponent: float  # values are cost ** exponent / state, or if it is NaN the cost alone

    @classmethod
    def of_size(cls, items: int, segments: int, exponent: float) -> Order:
        """Return an order with room for that many items in empty segments."""
        marks = np.zeros((segments, PIVOTS + _ROOM), np.int64)
        return cls(np.empty(items, np.int32), np.empty(items), marks, float(exponent))

    def put(self, first_segment: int, grouped: Ids, start: Positions, offset: int) -> None:
        """Lay out consecutive segments, from `offset` on; segment i holds ``grouped[start[i]:start[i + 1]]``."""
        self.ids[offset : offset + len(grouped)] = grouped
        rows = self.marks[first_segment : first_segment + len(start) - 1]
        rows[:, START], rows[:, END] = offset + start[:-1], offset + start[1:]
        rows[:, READY], rows[:, DEPTH] = -1, 0


def priorities(cost: Column, state: Column, exponent: float) -> Column:
    """Return the migration priority of each item, Fang's gamma.

    >>> priorities(np.array([4.0, 1.0, 0.0]), np.array([2.0, 0.0, 0.0]), 1.5).tolist()
    [4.0, inf, 0.0]
    """
    return _kernel_priorities(cost, state, float(exponent))


@njit(cache=True)
def _kernel_group(ids: Ids, segment_of: Ids, segments: int) -> tuple[Ids, Positions]:
    """Group `ids` by their segments (one each), keeping their order within a segment."""
    start = np.zeros(segments + 1, np.int64)
    for segment in segment_of:
        start[segment + 1] += 1
    for segment in range(segments):
        start[segment + 1] += start[segment]
    free = start.copy()
    grouped = np.empty(len(ids), np.int32)
    for i in range(len(ids)):
        segment = segment_of[i]
        grouped[free[segment]] = ids[i]
        free[segment] += 1
    return grouped, start


@njit(cache=True)
def _kernel_priority(cost: float, state: float, exponent: float) -> float:
    """Return Fang's gamma; what costs nothing comes last, what has no state first."""
    if cost == 0.0:
        return 0.0
    if state == 0.0:
        return np.inf
    return float(cost * np.sqrt(cost) if exponent == 1.5 else cost**exponent) / state


@njit(cache=True)
def _kernel_priorities(cost: Column, state: Column, exponent: float) -> Column:
    result = np.empty(len(cost))
    for x in range(len(cost)):
        result[x] = _kernel_priority(cost[x], state[x], exponent)
    return result


@njit(cache=True)
def _kernel_reach(order: Order, cost: Column, state: Column, segment: int, position: int) -> None:
    """Put the items of `segment` up to `position` into their final places; there must be as many."""
    ids, values, marks, exponent = order
    start, end = marks[segment, START], marks[segment, END]
    if marks[segment, READY] < 0:
        by_cost = np.isnan(exponent)
        for i in range(start, end):
            x = ids[i]
            values[i] = cost[x] if by_cost else _kernel_priority(cost[x], state[x], exponent)
        marks[segment, READY] = 0
    while marks[segment, READY] <= position:
        first = start + marks[segment, READY]
        depth = marks[segment, DEPTH]
        top = marks[segment, PIVOTS + depth - 1] if depth > 0 else end
        while top - first > _SMALL:
            top = _kernel_partition(ids, values, first, top)
            if depth < _ROOM:
                marks[segment, PIVOTS + depth] = top
                depth += 1
        _kernel_sort_small(ids, values, first, top)
        if depth > 0 and marks[segment, PIVOTS + depth - 1] == top:
            depth -= 1
        marks[segment, DEPTH] = depth
        marks[segment, READY] = min(top + 1, end) - start


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
