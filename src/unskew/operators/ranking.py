"""Rows of each group in the order of two columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.operators.base import Numbers
from unskew.operators.lists import starts_of

_FEW = 24


def ranked(group_of_row: Numbers, groups: int, first: NDArray[Any], then: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rows of group 0, of group 1, ..., each group's by `first`, then by `then`; and where groups start.

    As ``np.lexsort((then, first, group_of_row))``, but many times faster where groups are small: O(rows) to part the
    groups, O(n log n) within each.

    >>> order, starts = ranked(np.array([1, 0, 1, 1]), 2, np.array([5, 9, 3, 5]), np.array([2, 0, 0, 1]))
    >>> order.tolist(), starts.tolist()
    ([1, 2, 3, 0], [0, 1, 4])
    """
    starts = starts_of(np.bincount(group_of_row, minlength=groups))
    return _kernel_ranked(group_of_row, starts, first, then), starts


@njit(cache=True)
def _kernel_ranked(group_of_row: Numbers, starts: Numbers, first: NDArray[Any], then: Numbers) -> Numbers:
    order = np.empty(len(group_of_row), np.int64)
    place = starts[:-1].copy()
    for row in range(len(group_of_row)):
        order[place[group_of_row[row]]] = row
        place[group_of_row[row]] += 1
    for group in range(len(starts) - 1):
        start, stop = starts[group], starts[group + 1]
        if stop - start > _FEW:
            rows = order[start:stop].copy()
            rows = rows[np.argsort(then[rows], kind="mergesort")]
            order[start:stop] = rows[np.argsort(first[rows], kind="mergesort")]
            continue
        for i in range(start + 1, stop):
            row, j = order[i], i
            while j > start and (
                first[row] < first[order[j - 1]]
                or (first[row] == first[order[j - 1]] and then[row] < then[order[j - 1]])
            ):
                order[j] = order[j - 1]
                j -= 1
            order[j] = row
    return order
