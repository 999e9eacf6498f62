"""The k greatest values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.operators.aggregate_functions import Extreme
from unskew.operators.lists import spread_out
from unskew.operators.reductions import Mask, Numbers, valid_rows, whole_numbers
from unskew.state.groups import Groups
from unskew.state.index import fixed


class Top(Extreme):
    """``top(x, 3)``: the three greatest values, greatest first, equal ones as often as they occur; NaN is the greatest.

    The same as ``slice(sort_array(collect_list(x), false), 1, 3)`` in Spark, without keeping more than three.
    """

    most_options: ClassVar[int] = 1
    spelling: ClassVar[str] = "(x, k)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.option or "").isdecimal() or self.count < 1:
            raise ArgumentError("how many values must be said", where=self.name, got=self.option, hint='"top(x, 3)"')

    @property
    def count(self) -> int:
        """How many values are kept."""
        return int(self.option or 0)

    @property
    def kind(self) -> pa.DataType:
        """A list of values."""
        return pa.list_(self.input_kind)

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Keep the greatest of values."""
        values, group_of_row = columns[0], fixed(groups.group_of_row)
        most = min(self.count, len(values))
        rows, offsets = _kernel_top_rows(whole_numbers(values), valid_rows(values), group_of_row, len(groups), most)
        return [self._lists(values, rows, offsets)]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Keep the greatest of those kept."""
        values, starts = spread_out(states[0])
        order, group_starts = fixed(groups.order), fixed(groups.starts)
        places, offsets = _kernel_top_lists(whole_numbers(values), fixed(starts), order, group_starts, self.count)
        return [self._lists(values, places, offsets)]

    def _lists(self, values: pa.Array, places: NDArray[np.int32], offsets: NDArray[np.int32]) -> pa.Array:
        return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(places)), type=self.kind)


@njit(cache=True)
def _kernel_top_rows(
    values: Numbers, valid: Mask, group_of_row: Numbers, groups: int, count: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the rows of the greatest values of each group, greatest first, and where each group starts."""
    best, row_of_best = np.empty(groups * count, np.int64), np.empty(groups * count, np.int32)
    filled = np.zeros(groups, np.int32)
    for row in range(len(values)):
        if not valid[row]:
            continue
        group, value = group_of_row[row], values[row]
        first = group * count
        place = first + filled[group]
        if place < first + count:
            filled[group] += 1
        elif value <= best[place - 1]:
            continue
        else:
            place -= 1
        while place > first and best[place - 1] < value:
            best[place], row_of_best[place] = best[place - 1], row_of_best[place - 1]
            place -= 1
        best[place], row_of_best[place] = value, row
    offsets = np.zeros(groups + 1, np.int32)
    for group in range(groups):
        offsets[group + 1] = offsets[group] + filled[group]
    rows = np.empty(offsets[groups], np.int32)
    for group in range(groups):
        for place in range(filled[group]):
            rows[offsets[group] + place] = row_of_best[group * count + place]
    return rows, offsets


@njit(cache=True)
def _kernel_top_lists(
    values: Numbers, starts: NDArray[np.int32], order: Numbers, group_starts: Numbers, count: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the places of the greatest values in each group's lists, all greatest first, and where groups start."""
    groups = len(group_starts) - 1
    places, offsets = np.empty(len(values), np.int32), np.zeros(groups + 1, np.int32)
    end = 0
    for group in range(groups):
        first = end
        for number in range(group_starts[group], group_starts[group + 1]):
            row = order[number]
            at, stop, to = starts[row], starts[row + 1], first
            while at < stop:
                while to < end and values[places[to]] >= values[at]:
                    to += 1
                if to == first + count:
                    break
                end = min(end + 1, first + count)
                for later in range(end - 1, to, -1):
                    places[later] = places[later - 1]
                places[to] = at
                at += 1
        offsets[group + 1] = end
    return places[:end].copy(), offsets
