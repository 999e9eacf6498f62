"""The common aggregate functions, one class each: values become state, states merge, and state becomes a result."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.errors import ColumnError, RangeError
from unskew.operators.reductions import extreme_rows, sum_by_group, take_rows
from unskew.state.groups import Groups

_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MOST_DIGITS = 38
_DIGITS_FOR_SUMS, _DIGITS_FOR_MEANS = 10, 4


def is_number(kind: pa.DataType) -> bool:
    """Tell whether values of a type can be added up."""
    return any(test(kind) for test in (types.is_signed_integer, types.is_floating, types.is_decimal128))


def has_order(kind: pa.DataType) -> bool:
    """Tell whether values of a type can be compared."""
    ordered = (types.is_temporal, types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return is_number(kind) or types.is_boolean(kind) or any(test(kind) for test in ordered)


def anything(kind: pa.DataType) -> bool:
    """Accept every type."""
    return True


@dataclass(frozen=True)
class Result(ABC):
    """One aggregate function over columns."""

    name: str
    columns: tuple[pa.Field, ...]
    options: tuple[str, ...] = ()  # what stands behind the columns: ("3",) in "top(price, 3)"

    least_columns: ClassVar[int] = 1
    most_columns: ClassVar[int] = 1
    most_options: ClassVar[int] = 0
    fits: ClassVar[staticmethod[[pa.DataType], bool]] = staticmethod(is_number)  # which types the first column may have
    spelling: ClassVar[str] = "(x)"  # what stands behind the function's name, for hints
    commutative: ClassVar[bool] = True  # whether states may be merged in any order
    grows: ClassVar[bool] = False  # whether the state of a key grows with its rows, without a bound

    def __post_init__(self) -> None:
        for column in self.columns[:1]:
            if not self.fits(column.type):
                function = _CAPITAL.sub("_", type(self).__name__).lower()
                where = f"column {column.name!r}"
                raise ColumnError(f"{function} does not work on this type", where=where, got=str(column.type))

    @property
    def option(self) -> str | None:
        """The first option, if there is any."""
        return self.options[0] if self.options else None

    @property
    def kind(self) -> pa.DataType:
        """The type of the result; by default that of the first column."""
        return self.columns[0].type

    @property
    def state(self) -> list[pa.Field]:
        """The columns of its state."""
        return [pa.field(self.name, self.kind)]

    @abstractmethod
    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return the state that each group's values amount to."""

    @abstractmethod
    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        """Return one state per group."""

    def finish(self, states: list[pa.Array]) -> pa.Array:
        """Return the result."""
        return states[0]

    def sql(self, *columns: str) -> list[str] | None:
        """Return the SQL, over quoted columns, with which Spark makes `lift`'s state; None if it cannot."""
        return None


class Count(Result):
    """Rows, or values that are not null."""

    least_columns = 0
    fits = staticmethod(anything)
    spelling = "[(x)]"
    kind = pa.int64()

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        if not columns or columns[0].null_count == 0:
            return [pa.array(groups.counts)]
        valid = columns[0].is_valid().to_numpy(zero_copy_only=False)
        return [pa.array(np.bincount(groups.group_of_row[valid], minlength=len(groups)))]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return [sum_by_group(states[0], groups).fill_null(0)]

    def sql(self, *columns: str) -> list[str]:
        return [f"count({columns[0] if columns else '*'})"]


class Sum(Result):
    """The sum of values."""

    @property
    def kind(self) -> pa.DataType:
        return _type_of_sum(self.columns[0].type)

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return [sum_by_group(_as(columns[0], self.kind), groups)]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return [sum_by_group(states[0], groups)]

    def sql(self, *columns: str) -> list[str]:
        return [f"sum({columns[0]})"]


class Mean(Result):
    """The sum of values divided by their number; the sum of integers is a double here, as in Spark."""

    @property
    def kind(self) -> pa.DataType:
        values = self.columns[0].type
        if not types.is_decimal(values):
            return pa.float64()
        digits, scale = values.precision + _DIGITS_FOR_MEANS, values.scale + _DIGITS_FOR_MEANS
        return pa.decimal128(min(_MOST_DIGITS, digits), min(_MOST_DIGITS, scale))

    @property
    def state(self) -> list[pa.Field]:
        total = _type_of_sum(self.columns[0].type) if types.is_decimal(self.kind) else pa.float64()
        return [pa.field(f"{self.name}.sum", total), pa.field(f"{self.name}.count", pa.int64())]

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        # longs beyond 2**53 are rounded, as Spark rounds them
        total = sum_by_group(columns[0].cast(self.state[0].type, safe=False), groups)
        return [total, *Count(self.name, self.columns).lift(columns, groups)]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return [sum_by_group(states[0], groups), sum_by_group(states[1], groups).fill_null(0)]

    def finish(self, states: list[pa.Array]) -> pa.Array:
        total, count = states
        if not types.is_decimal(self.kind):
            return pc.divide(total, count.cast(pa.float64()))  # a sum of nothing is null, so is its mean
        return _decimal_quotient(total, count, self.kind)

    def sql(self, *columns: str) -> list[str]:
        (value,) = columns
        return [f"sum({value})" if types.is_decimal(self.kind) else f"sum(double({value}))", f"count({value})"]


class Min(Result):
    """The smallest value."""

    fits = staticmethod(has_order)
    greatest: ClassVar[bool] = False

    def lift(self, columns: list[pa.Array], groups: Groups) -> list[pa.Array]:
        values = _as(columns[0], self.kind)
        return [take_rows(values, extreme_rows(values, groups, greatest=self.greatest))]

    def merge(self, states: list[pa.Array], groups: Groups) -> list[pa.Array]:
        return self.lift(states, groups)

    def sql(self, *columns: str) -> list[str]:
        return [f"{'max' if self.greatest else 'min'}({columns[0]})"]


class Max(Min):
    """The greatest value."""

    greatest = True


def _type_of_sum(kind: pa.DataType) -> pa.DataType:
    if types.is_decimal(kind):
        return pa.decimal128(min(_MOST_DIGITS, kind.precision + _DIGITS_FOR_SUMS), kind.scale)
    return pa.float64() if types.is_floating(kind) else pa.int64()


def _decimal_quotient(total: pa.Array, count: pa.Array, kind: pa.DataType) -> pa.Array:
    """Divide and round half up. Arrow cuts quotients off far behind the digit that decides."""
    wide = total.cast(pa.decimal256(total.type.precision, total.type.scale))
    divisor = pc.if_else(pc.equal(count, 0), 1, count).cast(pa.decimal256(19, 0))  # a sum of nothing is null
    try:
        return pc.round(pc.divide(wide, divisor), kind.scale, "half_towards_infinity").cast(kind)
    except pa.ArrowInvalid:
        raise RangeError(f"a mean is out of the range of {kind}", hint="take the mean of a double") from None


def _as(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)
