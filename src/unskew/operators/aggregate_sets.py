"""Different values, exactly: how many there are, and which."""

from __future__ import annotations

import sys
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.operators.aggregate_functions import Result, has_order
from unskew.operators.bags import Bags, united
from unskew.operators.lists import concatenated, cut, lengths_of
from unskew.operators.reductions import valid_rows
from unskew.state.groups import Groups


class Bag(Result):
    """A function of a key's different values, and of counters beside them.

    A key's state is its values in order, each once, and a list of numbers for each counter. A batch reads and writes
    the whole lists of its keys. Merging is a union that adds counters up, so any order gives the same state.
    """

    counters: ClassVar[tuple[str, ...]] = ()
    """What is counted for each value; 1 for each row."""

    def fits(self, kind: pa.DataType) -> bool:
        """Accept what has an order."""
        return has_order(kind)

    @property
    def state(self) -> list[pa.Field]:
        """The values, a list for each of their parts, and the counters."""
        parts = [self.name, *(f"{self.name}.{place}" for place in range(1, len(self.columns)))]
        values = [pa.field(name, pa.list_(column.type)) for name, column in zip(parts, self.columns, strict=True)]
        return [*values, *(pa.field(f"{self.name}.{counter}", pa.list_(pa.int64())) for counter in self.counters)]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Put values into order, without those of which any part is null."""
        valid = np.logical_and.reduce([valid_rows(column) for column in columns])
        if not valid.all():
            columns = [column.filter(pa.array(valid)) for column in columns]
            groups = Groups(groups.hashes, groups.keys, groups.group_of_row[valid])
        ones = [np.ones(len(columns[0]), np.int64) for _ in self.counters]
        return self._lists(united([_with_one_zero(column) for column in columns], ones, groups))

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Unite values, add counters up."""
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

    most_columns: ClassVar[int] = sys.maxsize
    grows: ClassVar[bool] = True
    spelling: ClassVar[str] = "(x[, y, ...])"

    def __post_init__(self) -> None:
        super().__post_init__()
        for column in self.columns[1:]:
            CountDistinct(self.name, (column,))

    @property
    def kind(self) -> pa.DataType:
        """A long."""
        return pa.int64()

    def finish(self, states: list[pa.Array]) -> pa.Array:
        """Count."""
        return pa.array(lengths_of(states[0]))


class CollectSet(Bag):
    """``collect_set(x, 100)``: the different values in rising order, the 100 smallest if there are more.

    While a key has at most 100, these are the values of ``collect_set(x)`` in Spark, which has no bound and no order.
    NaN is the greatest value, and 0.0 stands for -0.0 too. The order of the rows does not matter.
    """

    most_options: ClassVar[int] = 1
    spelling: ClassVar[str] = "(x, k)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.option or "").isdecimal() or self.count < 1:
            hint = 'such as "collect_set(x, 100)"; a key with more values keeps the smallest'
            raise ArgumentError("how many values to keep must be said", where=self.name, got=self.option, hint=hint)

    @property
    def count(self) -> int:
        """How many values are kept."""
        return int(self.option or 0)

    @property
    def kind(self) -> pa.DataType:
        """A list of values."""
        return pa.list_(self.input_kind)

    def thinned(self, bags: Bags) -> Bags:
        """Keep the smallest values."""
        if bags.lengths.max(initial=0) <= self.count:
            return bags
        place = np.arange(len(bags.columns[0])) - np.repeat(bags.starts[:-1], bags.lengths)
        few = pa.array(place < self.count)
        return Bags([column.filter(few) for column in bags.columns], [], np.minimum(bags.lengths, self.count))


def _with_one_zero(values: pa.Array) -> pa.Array:
    """Return 0.0 for -0.0, so that it does not matter which of the two comes first."""
    return pc.add(values, pa.scalar(0, values.type)) if types.is_floating(values.type) else values
