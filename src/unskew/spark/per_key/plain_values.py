"""State values, keys and output of the lean form: plain Python values, times as NumPy has them, all in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from unskew.errors import ArgumentError
from unskew.spark.per_key.state_values import StateValues


class PlainValues(StateValues):
    """Converts state strictly: a value that does not fit its field is an error.

    Examples
    --------
    >>> values = PlainValues(pa.struct({"n": pa.int64(), "seen": pa.timestamp("us", "UTC")}))
    >>> kept = values.to_arrow([(5, np.datetime64("2024-02-29T12:00:00", "us")), None])
    >>> values.to_python(kept)
    [(5, np.datetime64('2024-02-29T12:00:00.000000')), None]
    """

    def column_to_python(self, column: pa.Array, position: int) -> list[Any]:
        return to_python(column)

    def column_to_arrow(self, values: Sequence[Any], position: int) -> pa.Array:
        return to_arrow(values, self.kind.field(position).type)


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
