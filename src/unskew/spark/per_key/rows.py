"""The rows of one key as NumPy arrays, cut out of whole columns when they are asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ColumnError
from unskew.operators import Clock
from unskew.operators.base import require_column

Column = tuple[NDArray[Any], NDArray[np.bool_] | None]


class Rows:
    """The rows of one key: ``rows["amount"]`` is a NumPy array, ``len(rows)`` their number.

    A column is converted when a key first asks for it, for all keys at once; columns that nobody asks for cost nothing.
    Numbers and booleans have the type that the schema says. Times are ``datetime64`` in UTC, null times are NaT, null
    floats are NaN, and everything else comes as Python objects, null as None. An integer or boolean has no value for
    null: a column that has nulls among the key's rows raises `ColumnError`; ask for `filled` or `valid`.

    Arrays are views that other keys' rows lie beside: do not write to them.

    Examples
    --------
    >>> batch = RowBatch(pa.record_batch({"user": ["ada", "ada", "bob"], "n": [1, 2, None]}), Clock(7, 0))
    >>> ada, bob = Rows(batch, 0, 2), Rows(batch, 2, 3)
    >>> len(ada), ada["n"].sum(), bob.filled("n", 0).sum(), bob.valid("n").sum()
    (2, np.int64(3), np.int64(0), np.int64(0))
    >>> bob["n"]
    Traceback (most recent call last):
    unskew.errors.ColumnError: a column of integers has nulls (in column 'n').
    Hint: rows.filled('n', 0) puts a value in their place, rows.valid('n') tells where they are.
    """

    __slots__ = ("_batch", "_start", "_stop", "timed_out")

    def __init__(self, batch: RowBatch, start: int, stop: int, timed_out: bool = False) -> None:
        self._batch, self._start, self._stop = batch, start, stop
        self.timed_out = timed_out

    def __len__(self) -> int:
        return self._stop - self._start

    def __getitem__(self, name: str) -> NDArray[Any]:
        values, valid = self._batch[name]
        if valid is not None and not valid[self._start : self._stop].all():
            raise ColumnError(
                "a column of integers has nulls" if values.dtype.kind != "b" else "a column of booleans has nulls",
                where=f"column {name!r}",
                hint=f"rows.filled({name!r}, 0) puts a value in their place, rows.valid({name!r}) tells where they are",
            )
        return values[self._start : self._stop]

    def filled(self, name: str, value: Any) -> NDArray[Any]:
        """Return a column with a value in place of nulls."""
        values, _ = self._batch[name]
        valid = self.valid(name)
        return np.where(valid, values[self._start : self._stop], np.asarray(value, values.dtype))

    def valid(self, name: str) -> NDArray[np.bool_]:
        """Tell for each row whether a column is not null."""
        return np.asarray(self.arrow(name).is_valid().to_numpy(zero_copy_only=False))

    def arrow(self, name: str) -> pa.Array:
        """Return a column as an Arrow array."""
        require_column(self._batch.rows.schema, name)
        return self._batch.rows.column(name).slice(self._start, len(self))

    @property
    def clock(self) -> Clock:
        """The time of the batch: processing time and watermark."""
        return self._batch.clock


class RowBatch(dict[str, Column]):
    """The columns of many keys' rows, converted on first use: the values, and where not null if that is not visible."""

    def __init__(self, rows: pa.RecordBatch, clock: Clock) -> None:
        super().__init__()
        self.rows, self.clock = rows, clock

    def __missing__(self, name: str) -> Column:
        require_column(self.rows.schema, name)
        column, kind = self.rows.column(name), self.rows.schema.field(name).type
        valid = None
        if column.null_count and (types.is_integer(kind) or types.is_boolean(kind)):
            valid = np.asarray(column.is_valid().to_numpy(zero_copy_only=False))
            column = column.fill_null(False if types.is_boolean(kind) else 0)
        self[name] = np.asarray(column.to_numpy(zero_copy_only=False)), valid
        return self[name]
