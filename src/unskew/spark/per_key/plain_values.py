"""State between two batches: tuples of Python values in a function's hands, one Arrow struct column at rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError

State = tuple[Any, ...]
T = TypeVar("T")
R = TypeVar("R")


class PlainValues:
    """Converts the states of many keys at once, strictly: a value that does not fit its field is an error.

    >>> values = PlainValues(pa.struct({"n": pa.int64(), "seen": pa.timestamp("us", "UTC")}))
    >>> kept = values.to_arrow([(5, np.datetime64("2024-02-29T12:00:00", "us")), None])
    >>> values.to_python(kept)
    [(5, np.datetime64('2024-02-29T12:00:00.000000')), None]
    """

    def __init__(self, kind: pa.StructType) -> None:
        self.kind = kind

    def column_to_python(self, column: pa.Array, position: int) -> list[Any]:
        """Return a field of many states as a function gets it."""
        return to_python(column)

    def column_to_arrow(self, values: Sequence[Any], position: int) -> pa.Array:
        """Return a field of many states, as a function gave it, as Arrow keeps it."""
        return to_arrow(values, self.kind.field(position).type)

    def to_python(self, states: pa.StructArray) -> list[State | None]:
        """Return states as tuples; None where there is none."""
        there = states.drop_null()
        columns = [self.column_to_python(column, i) for i, column in enumerate(there.flatten())]
        tuples: list[State | None] = list(zip(*columns, strict=True)) if columns else [()] * len(there)
        return spread(tuples, states, None)

    def to_arrow(self, states: Sequence[State | None]) -> pa.StructArray:
        """Return tuples, or None, as a column."""
        blank = (None,) * self.kind.num_fields
        absent = pa.array([state is None for state in states], pa.bool_())
        rows = [blank if state is None else state for state in states]
        fields = range(self.kind.num_fields)
        columns = [self.column_to_arrow(list(map(itemgetter(i), rows)), i) for i in fields]  # zip(*rows) takes longer
        return pa.StructArray.from_arrays(columns, fields=list(self.kind), mask=absent)


def together(
    convert: Callable[[list[T]], R], items: list[T], owners: Sequence[int], describe: Callable[[int], str]
) -> R:
    """Convert items all at once; if that fails, one by one, so that the error tells whose item is wrong."""
    try:
        return convert(items)
    except Exception:
        for item, owner in zip(items, owners, strict=True):
            try:
                convert([item])
            except Exception as error:
                error.add_note(describe(owner))
                raise
        raise


def spread(known: list[Any], column: pa.Array, absent: Any) -> list[Any]:
    """Put the values of a column that are not null back into their places, with `absent` between them."""
    if not column.null_count:
        return known
    values = [absent] * len(column)
    for place, value in zip(np.flatnonzero(column.is_valid()).tolist(), known, strict=True):
        values[place] = value
    return values


def to_python(column: pa.Array) -> list[Any]:
    """Return a column as a list; times and dates as ``numpy.datetime64``, null as None."""
    if types.is_timestamp(column.type) or types.is_date(column.type):
        times = column.to_numpy(zero_copy_only=False)
        return [None if np.isnat(time) else time for time in times] if column.null_count else list(times)
    if types.is_primitive(column.type) and not column.null_count:
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    return list(column.to_pylist())


def to_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of a type, or raise `ArgumentError`; no number is rounded or cut."""
    try:
        if types.is_timestamp(kind) or types.is_date(kind):
            return _times(values, kind)
        if types.is_integer(kind) and any(issubclass(each, (float, np.floating)) for each in {*map(type, values)}):
            return pa.array(values, pa.float64()).cast(kind)
        return pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ArgumentError(f"a value does not fit the type {kind}: {error}") from None


def _times(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, np.ndarray) or np.datetime64 in {*map(type, values)}:
        unit = kind.unit if types.is_timestamp(kind) else "D"
        return pa.array(np.asarray(values, f"datetime64[{unit}]")).cast(kind)
    return pa.array(values, kind)
