"""What a lean function returns as output: a row, several rows, or columns; put together as one Arrow table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from unskew.errors import ArgumentError
from unskew.spark.per_key.plain_values import to_arrow

Row = tuple[Any, ...]
Output = Row | list[Row] | Mapping[str, Any] | None


class RowOutput:
    """Takes in output and converts it together.

    Parameters
    ----------
    schema
        The declared output.
    describe
        Says in words who an owner of output is, for errors.

    Examples
    --------
    >>> output = RowOutput(pa.schema({"user": pa.string(), "n": pa.int64()}))
    >>> output.take(("ada", 1), owner=0)
    >>> output.take([("bob", 2), ("bob", 3)], owner=1)
    >>> output.take({"user": "cy", "n": np.array([4, 5])}, owner=2)
    >>> output.to_arrow().to_pydict()
    {'user': ['ada', 'bob', 'bob', 'cy', 'cy'], 'n': [1, 2, 3, 4, 5]}
    """

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
            raise ArgumentError("this is no output", got=type(output).__name__, hint=hint)

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
        if not self._rows:
            return
        try:
            self._batches.append(self._from_rows(self._rows))
        except ArgumentError:
            for row, owner in zip(self._rows, self._owners, strict=True):  # row by row, so that the error tells whose
                try:
                    self._from_rows([row])
                except ArgumentError as error:
                    error.add_note(self._describe(owner))
                    raise error from None
            raise
        self._rows, self._owners = [], []

    def _from_rows(self, rows: list[Row]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [to_arrow(column, kind) for column, kind in zip(columns, self._schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _columns(self, columns: Mapping[str, Any]) -> pa.RecordBatch:
        if {*columns} != {*self._schema.names}:
            raise ArgumentError("the columns of the output are others", got=[*columns], hint=str(self._schema.names))
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
