"""The k greatest values."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew.operators.aggregate_functions import Extreme
from unskew.operators.groups import Groups
from unskew.operators.index import fixed
from unskew.operators.lists import concatenated
from unskew.operators.reductions import Mask, Numbers, sortable, valid_rows


class Top(Extreme):
    """``top(x, 3)``: the three greatest values, greatest first, equal ones as often as they occur; NaN is the greatest.

    The same as ``slice(sort_array(collect_list(x), false), 1, 3)`` in Spark, without keeping more than three.
    """

    takes_option: ClassVar[bool] = True

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
        return [self._greatest(columns[0], groups.group_of_row, len(groups))]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Keep the greatest of those kept."""
        values, list_of_value = concatenated(states[0])
        return [self._greatest(values, groups.group_of_row[list_of_value], len(groups))]

    def _greatest(self, values: pa.Array, group_of_row: Numbers, groups: int) -> pa.Array:
        rows, offsets = _kernel_top(
            fixed(sortable(values)), valid_rows(values), fixed(group_of_row), groups, min(self.count, len(values))
        )
        return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(rows)), type=self.kind)


@njit(cache=True)
def _kernel_top(
    values: NDArray[np.float64] | Numbers, valid: Mask, group_of_row: Numbers, groups: int, count: int
) -> tuple[Numbers, NDArray[np.int32]]:
    """Return the rows of the greatest values of each group, greatest first, and where each group starts."""
    best, filled = np.empty((groups, count), np.int64), np.zeros(groups, np.int64)
    for row in range(len(values)):
        if not valid[row]:
            continue
        group, value = group_of_row[row], values[row]
        place = filled[group]
        if place == count:
            last = values[best[group, count - 1]]
            if not (value > last or (np.isnan(value) and not np.isnan(last))):
                continue
            place -= 1
        else:
            filled[group] += 1
        while place > 0:
            above = values[best[group, place - 1]]
            if not (value > above or (np.isnan(value) and not np.isnan(above))):
                break
            best[group, place] = best[group, place - 1]
            place -= 1
        best[group, place] = row
    offsets = np.zeros(groups + 1, np.int32)
    for group in range(groups):
        offsets[group + 1] = offsets[group] + filled[group]
    rows = np.empty(offsets[groups], np.int64)
    for group in range(groups):
        for place in range(filled[group]):
            rows[offsets[group] + place] = best[group, place]
    return rows, offsets
