"""The different values of each group, in order, with counters beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit

from unskew.operators.reductions import Numbers, whole_numbers
from unskew.state.groups import Groups
from unskew.state.index import fixed


@dataclass(frozen=True, eq=False)
class Bags:
    """The different values of each group: group by group, each group's rising.

    Parameters
    ----------
    columns
        The values, n long; several arrays if a value has several parts.
    counters
        Numbers that belong to each value, int64[n] each.
    lengths
        How many values each group has, int64[G].
    """

    columns: Sequence[pa.Array]
    counters: Sequence[Numbers]
    lengths: Numbers

    @property
    def starts(self) -> Numbers:
        """Where each group starts, int64[G + 1]."""
        return np.concatenate(([0], np.cumsum(self.lengths)))


def united(columns: Sequence[pa.Array], counters: Sequence[Numbers], groups: Groups) -> Bags:
    """Return each value of a group once, and add up the counters of equal ones.

    NaN equals NaN and is the greatest, -0.0 equals 0.0, strings go by their bytes. `groups` says which group each value
    belongs to. Takes O(n log r) for a group with n values in r rising runs: lists that are in order are only merged.

    Examples
    --------
    >>> groups = Groups(np.array([7, 8]), pa.table({}), np.array([0, 1, 0, 0]))
    >>> bags = united([pa.array(["b", "x", "a", "b"])], [np.array([1, 1, 1, 5])], groups)
    >>> bags.columns[0].to_pylist(), bags.counters[0].tolist(), bags.lengths.tolist()
    (['a', 'b', 'x'], [1, 6, 1], [2, 1])
    """
    numbers, starts = _numbers(columns), fixed(groups.starts)
    order = _kernel_sorted(numbers, fixed(groups.order), starts)
    firsts, lengths = _kernel_firsts(numbers, order, starts)
    chosen = pa.array(order[firsts])
    summed = [np.add.reduceat(counter[order], firsts) if len(firsts) else counter for counter in counters]
    return Bags([column.take(chosen) for column in columns], summed, lengths)


def _numbers(columns: Sequence[pa.Array]) -> Numbers:
    """Return whole numbers in the order of the values, equal where all parts of them are."""
    numbers = whole_numbers(columns[0])
    for column in columns[1:]:
        rank, next_rank = (np.unique(part, return_inverse=True)[1] for part in (numbers, whole_numbers(column)))
        numbers = rank * (next_rank.max(initial=0) + 1) + next_rank
    return fixed(numbers)


@njit(cache=True)
def _kernel_sorted(numbers: Numbers, order: Numbers, starts: Numbers) -> Numbers:
    """Return an order by group with each group's numbers rising, equal ones as they were: a natural merge sort."""
    order = order.copy()
    keys = numbers[order]
    merged, merged_keys = np.empty_like(order), np.empty_like(keys)
    for group in range(len(starts) - 1):
        first, stop = starts[group], starts[group + 1]
        runs = 2
        while runs > 1:
            runs, at = 0, first
            while at < stop:
                middle = at + 1
                while middle < stop and keys[middle - 1] <= keys[middle]:
                    middle += 1
                end = middle + 1
                while end < stop and keys[end - 1] <= keys[end]:
                    end += 1
                end = min(end, stop)
                left, right = at, middle
                for to in range(at, end):
                    if right == end or (left < middle and keys[left] <= keys[right]):
                        merged[to], merged_keys[to] = order[left], keys[left]
                        left += 1
                    else:
                        merged[to], merged_keys[to] = order[right], keys[right]
                        right += 1
                at = end
                runs += 1
            order[first:stop], keys[first:stop] = merged[first:stop], merged_keys[first:stop]
    return order


@njit(cache=True)
def _kernel_firsts(numbers: Numbers, order: Numbers, starts: Numbers) -> tuple[Numbers, Numbers]:
    """Return where in the order each number of a group comes first, and how many each group has."""
    firsts, lengths = np.empty(len(order), np.int64), np.zeros(len(starts) - 1, np.int64)
    found = 0
    for group in range(len(lengths)):
        for place in range(starts[group], starts[group + 1]):
            if place == starts[group] or numbers[order[place]] != numbers[order[place - 1]]:
                firsts[found] = place
                found += 1
                lengths[group] += 1
    return firsts[:found].copy(), lengths
