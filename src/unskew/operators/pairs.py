"""Divides groups further by a number: rows form a pair if they agree in both."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unskew.operators.base import Numbers
from unskew.state.groups import kernel_group

_MOST_CODES = 1 << 62


@dataclass(frozen=True)
class Pairs:
    """The distinct pairs of group and number, group by group, numbers rising."""

    group: Numbers
    number: Numbers
    pair_of_row: Numbers

    def __len__(self) -> int:
        return len(self.group)


def pairs_of(group_of_row: Numbers, numbers: Numbers, groups: int) -> Pairs:
    """Find the pairs of group and number that rows have. O(rows), and a sort of the pairs.

    >>> pairs = pairs_of(np.array([1, 0, 1, 1]), np.array([7, 7, 5, 7]), groups=2)
    >>> pairs.group.tolist(), pairs.number.tolist(), pairs.pair_of_row.tolist()
    ([0, 1, 1], [7, 5, 7], [2, 0, 1, 2])
    """
    codes = _codes(group_of_row, numbers, groups)
    pair_of_row, first_row = kernel_group(codes)
    order = np.argsort(codes[first_row])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    first_row = first_row[order]
    return Pairs(group_of_row[first_row], numbers[first_row], place[pair_of_row])


def pairs_in_runs(group_of_row: Numbers, numbers: Numbers, groups: int) -> Pairs:
    """Return the same by sorting the rows, which is quicker if they consist of a few sorted runs."""
    codes = _codes(group_of_row, numbers, groups)
    order = np.argsort(codes, kind="stable")
    opens = np.diff(codes[order], prepend=-1) != 0
    pair_of_row = np.empty(len(order), np.int64)
    pair_of_row[order] = np.cumsum(opens) - 1
    first_row = order[opens]
    return Pairs(group_of_row[first_row], numbers[first_row], pair_of_row)


def _codes(group_of_row: Numbers, numbers: Numbers, groups: int) -> Numbers:
    """Return a number for each pair, not negative, in the order of groups and numbers."""
    if not len(numbers):
        return np.empty(0, np.int64)
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if groups * span < _MOST_CODES:
        return group_of_row * span + (numbers - low)
    distinct, rank = np.unique(numbers, return_inverse=True)
    return group_of_row * len(distinct) + rank
