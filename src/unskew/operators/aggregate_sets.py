"""Functions of each group's different values: exact counts, and the values themselves."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.operators.aggregate_functions import Result, has_order
from unskew.operators.base import Numbers
from unskew.operators.lists import concatenated, cut, lengths_of, starts_of
from unskew.operators.reductions import valid_rows, whole_numbers
from unskew.state.groups import Groups
from unskew.state.index import fixed


@dataclass(frozen=True, eq=False)
class Bags:
    """The different values of each group: group by group, each group's rising."""

    columns: Sequence[pa.Array]  # the values; several arrays if a value has several parts
    counters: Sequence[Numbers]  # numbers that belong to each value
    lengths: Numbers  # how many values each group has

    @property
    def starts(self) -> Numbers:
        return starts_of(self.lengths)


class Bag(Result):
    """A function of a key's different values, and of counters beside them.

    A key's state is its values in order, each once, and a list of numbers for each counter. A batch reads and writes
    the whole lists of its keys. Merging is a union that adds counters up, so any order gives the same state.
    """

    fits = staticmethod(has_order)
    counters: ClassVar[tuple[str, ...]] = ()  # what is counted for each value; each row adds 1

    @property
    def state(self) -> list[pa.Field]:
        """The values, a list for each of their parts, and the counters."""
        parts = [self.name, *(f"{self.name}.{place}" for place in range(1, len(self.columns)))]
        values = [pa.field(name, pa.list_(column.type)) for name, column in zip(parts, self.columns, strict=True)]
        return [*values, *(pa.field(f"{self.name}.{counter}", pa.list_(pa.int64())) for counter in self.counters)]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        valid = np.logical_and.reduce([valid_rows(column) for column in columns])
        if not valid.all():
            columns = [column.filter(pa.array(valid)) for column in columns]
            groups = Groups(groups.hashes, groups.keys, groups.group_of_row[valid])
        ones = [np.ones(len(columns[0]), np.int64) for _ in self.counters]
        return self._lists(united([_with_one_zero(column) for column in columns], ones, groups))

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        _, list_of_value = concatenated(states[0])
        held = [state.flatten() for state in states]
        columns, counters = held[: len(self.columns)], [each.to_numpy() for each in held[len(self.columns) :]]
        group_of_value = groups.group_of_row[list_of_value]
        return self._lists(united(columns, counters, Groups(groups.hashes, groups.keys, group_of_value)))

    def thinned(self, bags: Bags) -> Bags:
        """Leave values out if there are too many; by default keep all."""
        return bags

    def _lists(self, bags: Bags) -> list[pa.Array]:
        kept = self.thinned(bags)
        return [cut(array, kept.lengths) for array in (*kept.columns, *map(pa.array, kept.counters))]


class CountDistinct(Bag):
    """``count_distinct(x)``: the exact number of different values, as ``count(DISTINCT x)`` in Spark.

    ``count_distinct(x, y)`` counts combinations in which nothing is null. NaN counts once, 0.0 and -0.0 are the same.

    The state of a key is all its different values, so it grows with them, without a bound. A batch reads and writes
    all values of the keys that it touches. ``approx_count_distinct`` takes at most 1 KB per key.
    """

    most_columns = sys.maxsize
    grows = True
    spelling = "(x[, y, ...])"
    kind = pa.int64()

    def __post_init__(self) -> None:
        super().__post_init__()
        for column in self.columns[1:]:
            CountDistinct(self.name, (column,))

    def finish(self, states: list[pa.Array]) -> pa.Array:
        return pa.array(lengths_of(states[0]))


class CollectSet(Bag):
    """``collect_set(x, 100)``: the different values in rising order, the 100 smallest if there are more.

    While a key has at most 100, these are the values of ``collect_set(x)`` in Spark, which has no bound and no order.
    NaN is the greatest value, and 0.0 stands for -0.0 too. The order of the rows does not matter.
    """

    most_options = 1
    spelling = "(x, k)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.option or "").isdecimal() or self.count < 1:
            hint = 'such as "collect_set(x, 100)"; a key with more values keeps the smallest'
            raise ArgumentError("say how many values to keep", where=self.name, got=self.option, hint=hint)

    @property
    def count(self) -> int:
        return int(self.option or 0)

    @property
    def kind(self) -> pa.DataType:
        return pa.list_(self.columns[0].type)

    def thinned(self, bags: Bags) -> Bags:
        if bags.lengths.max(initial=0) <= self.count:
            return bags
        place = np.arange(len(bags.columns[0])) - np.repeat(bags.starts[:-1], bags.lengths)
        few = pa.array(place < self.count)
        return Bags([column.filter(few) for column in bags.columns], [], np.minimum(bags.lengths, self.count))


def _with_one_zero(values: pa.Array) -> pa.Array:
    """Return 0.0 for -0.0, so that it does not matter which of the two comes first."""
    return pc.add(values, pa.scalar(0, values.type)) if types.is_floating(values.type) else values


def united(columns: Sequence[pa.Array], counters: Sequence[Numbers], groups: Groups) -> Bags:
    """Return each value of a group once, and add up the counters of equal ones.

    NaN equals NaN and is the greatest, -0.0 equals 0.0, strings go by their bytes. `groups` says which group each value
    belongs to. Takes O(n log r) for a group with n values in r rising runs: lists that are in order are only merged.

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
