"""One or a few values out of many: by the order of the rows, by another column, or the greatest."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.aggregate_functions import Result, anything, has_order
from unskew.operators.base import Mask, Numbers
from unskew.operators.lists import spread_out
from unskew.operators.presum import ORDER_COLUMN
from unskew.operators.reductions import extreme_rows, sortable, take_rows, valid_rows, whole_numbers
from unskew.state.groups import Groups
from unskew.state.index import fixed

_NONE = -1


class First(Result):
    """The value of the first row, null or not; ``first(x, true)`` that of the first row in which it is not null.

    Rows come in the order of their source partitions, batch after batch: as far as Spark defines an order, it is this
    one. Keys are not split, because parts of a key have no order among them; ``min_by`` can be split.
    """

    most_options = 1
    fits = staticmethod(anything)
    spelling = "(x[, true])"
    commutative = False
    step: ClassVar[int] = -1  # candidates are written forwards or backwards, and the last one written stays

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.option or "false").lower() not in ("false", "true"):
            raise ArgumentError("the option to skip nulls must be true or false", where=self.name, got=self.option)

    @property
    def state(self) -> list[pa.Field]:
        """The value, and whether there is one: it may be null."""
        return [pa.field(self.name, self.kind), pa.field(f"{self.name}.seen", pa.bool_())]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values = columns[0]
        return self._chosen(values, valid_rows(values) if self._skips else np.ones(len(values), np.bool_), groups)

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values, seen = states
        return self._chosen(values, seen.fill_null(False).to_numpy(zero_copy_only=False), groups)

    def sql(self, *columns: str) -> list[str]:
        value, where = columns[0], f" FILTER (WHERE {columns[0]} IS NOT NULL)" if self._skips else ""
        chosen_by = "min_by" if self.step < 0 else "max_by"
        return [f"{chosen_by}({value}, {ORDER_COLUMN}){where}", f"count(*){where} > 0"]

    @property
    def _skips(self) -> bool:
        return (self.option or "").lower() == "true"

    def _chosen(self, values: pa.Array, candidates: Mask, groups: Groups) -> list[pa.Array]:
        places = np.flatnonzero(candidates)[:: self.step]
        rows = np.full(len(groups), _NONE)
        rows[groups.group_of_row[places]] = places
        return [take_rows(values, rows), pa.array(rows != _NONE)]


class Last(First):
    """The value of the last row, null or not; ``last(x, true)`` that of the last row in which it is not null."""

    step = 1


class MaxBy(Result):
    """``max_by(x, y)``: the value of x, null or not, in the row with the greatest y.

    Rows without y count for nothing. Among rows with equal y, Spark may choose any; here the greatest x wins, so that
    order does not matter. ``min_by`` takes the least.
    """

    least_columns = 2
    most_columns = 2
    fits = staticmethod(has_order)
    spelling = "(x, y)"
    greatest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        by = self.columns[1]
        if not has_order(by.type):
            raise ColumnError("this type has no order", where=f"column {by.name!r}", got=str(by.type))

    @property
    def state(self) -> list[pa.Field]:
        """The value, and what it was chosen by."""
        return [pa.field(self.name, self.kind), pa.field(f"{self.name}.by", self.columns[1].type)]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.merge(columns, groups)

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values, by = states
        best = extreme_rows(by, groups, greatest=self.greatest)
        numbers, mine = sortable(by), best[groups.group_of_row]
        ties = np.isclose(numbers, numbers[mine], rtol=0, atol=0, equal_nan=True)
        among = np.flatnonzero(ties & (mine != _NONE) & valid_rows(by))
        chosen = Groups(groups.hashes, groups.keys, groups.group_of_row[among])
        candidates = values.take(pa.array(among))
        rows = extreme_rows(candidates, chosen, greatest=self.greatest)
        return [take_rows(candidates, rows), take_rows(by, best)]

    def sql(self, *columns: str) -> list[str]:
        value, by = columns
        if self.greatest:
            return [f"max_by({value}, struct({by}, {value})) FILTER (WHERE {by} IS NOT NULL)", f"max({by})"]
        order = f"struct({by}, {value} IS NULL, {value})"
        return [f"min_by({value}, {order}) FILTER (WHERE {by} IS NOT NULL)", f"min({by})"]


class MinBy(MaxBy):
    """``min_by(x, y)``: the value of x, null or not, in the row with the least y."""

    greatest = False


class Top(Result):
    """``top(x, 3)``: the three greatest values, greatest first, equal ones as often as they occur; NaN is the greatest.

    The same as ``slice(sort_array(collect_list(x), false), 1, 3)`` in Spark, without keeping more than three.
    """

    most_options = 1
    fits = staticmethod(has_order)
    spelling = "(x, k)"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.option or "").isdecimal() or self.count < 1:
            raise ArgumentError("say how many values to keep", where=self.name, got=self.option, hint='"top(x, 3)"')

    @property
    def count(self) -> int:
        return int(self.option or 0)

    @property
    def kind(self) -> pa.DataType:
        return pa.list_(self.columns[0].type)

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values, group_of_row = columns[0], fixed(groups.group_of_row)
        most = min(self.count, len(values))
        rows, offsets = _kernel_top_rows(whole_numbers(values), valid_rows(values), group_of_row, len(groups), most)
        return [self._lists(values, rows, offsets)]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
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
