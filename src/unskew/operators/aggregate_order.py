"""One value out of many, by the order of the rows or by another column."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.aggregate_functions import Result, has_order
from unskew.operators.presum import ORDER_COLUMN
from unskew.operators.reductions import Numbers, extreme_rows, sortable, take_rows, valid_rows
from unskew.state.groups import Groups

_NONE = -1
_FLAGS = {None: False, "false": False, "true": True}


class First(Result):
    """The value of the first row, null or not; ``first(x, true)`` that of the first row in which it is not null.

    Rows come in the order of their source partitions, batch after batch: as far as Spark defines an order, it is this
    one. Keys are not split, since parts of a key know no order; ``min_by`` can be.
    """

    most_options: ClassVar[int] = 1
    spelling: ClassVar[str] = "(x[, true])"
    commutative: ClassVar[bool] = False
    chosen_by: ClassVar[str] = "min_by"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.option or "false").lower() not in _FLAGS:
            raise ArgumentError("whether nulls are passed over is true or false", where=self.name, got=self.option)

    def fits(self, kind: pa.DataType) -> bool:
        """Accept every type."""
        return True

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self.input_kind

    @property
    def state(self) -> list[pa.Field]:
        """The value, and whether there is one: it may be null."""
        return [pa.field(self.name, self.kind), pa.field(f"{self.name}.seen", pa.bool_())]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Choose among rows."""
        values = columns[0]
        return self._chosen(values, valid_rows(values) if self._skips else np.ones(len(values), np.bool_), groups)

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Choose among those chosen."""
        values, seen = states
        return self._chosen(values, seen.fill_null(False).to_numpy(zero_copy_only=False), groups)

    def sql(self, *columns: str) -> list[str]:
        value, where = columns[0], f" FILTER (WHERE {columns[0]} IS NOT NULL)" if self._skips else ""
        return [f"{self.chosen_by}({value}, {ORDER_COLUMN}){where}", f"count(*){where} > 0"]

    @property
    def _skips(self) -> bool:
        """Whether nulls are passed over."""
        return _FLAGS[self.option.lower() if self.option else None]

    def _chosen(self, values: pa.Array, candidates: NDArray[np.bool_], groups: Groups) -> list[pa.Array]:
        rows = self.choose(np.flatnonzero(candidates), groups)
        return [take_rows(values, rows), pa.array(rows != _NONE)]

    def choose(self, candidates: Numbers, groups: Groups) -> Numbers:
        """Return the row of each group, -1 where there is none."""
        rows = np.full(len(groups), _NONE)
        rows[groups.group_of_row[candidates[::-1]]] = candidates[::-1]  # the last one written stays
        return rows


class Last(First):
    """The value of the last row, null or not; ``last(x, true)`` that of the last row in which it is not null."""

    chosen_by: ClassVar[str] = "max_by"

    def choose(self, candidates: Numbers, groups: Groups) -> Numbers:
        """Return the row of each group, -1 where there is none."""
        rows = np.full(len(groups), _NONE)
        rows[groups.group_of_row[candidates]] = candidates
        return rows


class MaxBy(Result):
    """``max_by(x, y)``: the value of x, null or not, in the row with the greatest y.

    Rows without y count for nothing. Of rows with equal y, where Spark chooses any, the one with the greatest x is
    taken, so that order does not matter; ``min_by`` takes the one with the least.
    """

    least_columns: ClassVar[int] = 2
    most_columns: ClassVar[int] = 2
    spelling: ClassVar[str] = "(x, y)"
    greatest: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        by = self.columns[1]
        if not has_order(by.type):
            raise ColumnError("this type has no order", where=f"column {by.name!r}", got=str(by.type))

    def fits(self, kind: pa.DataType) -> bool:
        """Accept what has an order."""
        return has_order(kind)

    @property
    def kind(self) -> pa.DataType:
        """The type of the values."""
        return self.input_kind

    @property
    def state(self) -> list[pa.Field]:
        """The value, and what it was chosen by."""
        return [pa.field(self.name, self.kind), pa.field(f"{self.name}.by", self.columns[1].type)]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Choose among rows."""
        return self.merge(columns, groups)

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Choose among those chosen."""
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

    greatest: ClassVar[bool] = False
