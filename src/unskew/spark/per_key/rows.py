"""Rows of a lean function: in as NumPy arrays cut out of whole columns, out as tuples or columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Clock
from unskew.operators.base import require_column
from unskew.spark.per_key.plain_values import to_arrow, together

Column = tuple[NDArray[Any], NDArray[np.bool_] | None]
Row = tuple[Any, ...]
Output = Row | list[Row] | Mapping[str, Any] | None


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
            what = f"a column of {'booleans' if values.dtype.kind == 'b' else 'integers'} has nulls"
            hint = f"rows.filled({name!r}, 0) puts a value in their place, rows.valid({name!r}) tells where they are"
            raise ColumnError(what, where=f"column {name!r}", hint=hint)
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
    """The columns of many keys' rows, converted on first use: values, and a mask of nulls that they cannot show."""

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


class RowOutput:
    """Takes in the output of many calls and converts it together; errors describe the owner of what is wrong."""

    def __init__(self, schema: pa.Schema, describe: Callable[[int], str] = str) -> None:
        self._schema, self._describe = schema, describe
        self._width = len(schema)
        self._rows: list[Row] = []
        self._owners: list[int] = []
        self._batches: list[pa.RecordBatch] = []

    def take(self, output: Any, owner: int) -> None:
        """Take in the output of one call, an `Output`."""
        if output is None:
            return
        if isinstance(output, tuple):
            self._append(output, owner)
        elif isinstance(output, list):
            for row in output:
                self._append(row, owner)
        elif isinstance(output, Mapping):
            self._flush()
            self._batches.append(self._columns(output))
        else:
            hint = "return a tuple for one row, a list of tuples for several, a dict of columns for many, or None"
            raise ArgumentError("a function cannot return this as output", got=type(output).__name__, hint=hint)

    def to_arrow(self) -> pa.Table:
        """Return all rows, in the order in which they came."""
        self._flush()
        return pa.Table.from_batches(self._batches, self._schema)

    def _append(self, row: Row, owner: int) -> None:
        if not isinstance(row, tuple) or len(row) != self._width:
            raise ArgumentError(f"a row of the output is a tuple of {self._width} values", got=row)
        self._rows.append(row)
        self._owners.append(owner)

    def _flush(self) -> None:
        if self._rows:
            self._batches.append(together(self._from_rows, self._rows, self._owners, self._describe))
        self._rows, self._owners = [], []

    def _from_rows(self, rows: list[Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [to_arrow(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, columns: Mapping[str, Any]) -> pa.RecordBatch:
        if {*columns} != {*self._schema.names}:
            hint = f"return {', '.join(self._schema.names)}"
            raise ArgumentError("the output has other columns than its schema", got=[*columns], hint=hint)
        lengths = {len(column) for column in columns.values() if _is_column(column)}
        if len(lengths) > 1:
            raise ArgumentError("the columns of the output differ in length", got=sorted(lengths))
        length = lengths.pop() if lengths else 1
        arrays = [
            to_arrow(columns[name] if _is_column(columns[name]) else [columns[name]] * length, kind)
            for name, kind in zip(self._schema.names, self._schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


def _is_column(value: Any) -> bool:
    return isinstance(value, (np.ndarray, list, pa.Array))
