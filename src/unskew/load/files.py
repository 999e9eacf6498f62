"""Statistics that people bring as CSV or Parquet."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError, FormatError, StatisticsError
from unskew.hashing import xxhash64
from unskew.load.statistics import checked_column

Column = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class KeyTable:
    """Keys with their load and, where the file says so, their channels; sorted by key.

    Parameters
    ----------
    keys
        The keys as they stand in the file; unique.
    hashes
        Their 64-bit hashes.
    cost, state
        Load and state per key; state equals cost where the file has none.
    channel, home
        Owner in force and owner by hash, or None where the file has no such column.
    """

    keys: pa.Array
    hashes: NDArray[np.int64]
    cost: Column
    state: Column
    channel: NDArray[np.int32] | None
    home: NDArray[np.int32] | None


def read_key_table(path: str | Path) -> KeyTable:
    """Read a CSV or Parquet file with columns ``key, cost`` and optionally ``state, channel, home``.

    Raises
    ------
    ColumnError
        If a column is missing.
    StatisticsError
        If a number is NaN, negative or missing, or a key stands twice; the message names the row, counted from 0.
    """
    rows = _read(Path(path))
    keys, cost = (_column(rows, name, str(path)) for name in ("key", "cost"))
    order = pc.sort_indices(keys).to_numpy()
    sorted_keys = keys.take(pa.array(order))
    _refuse_repeated(sorted_keys, order, str(path))
    costs = _numbers(cost, "cost", str(path))
    owners = {
        name: _channels(_column(rows, name, str(path)), name, str(path))[order] if name in rows.column_names else None
        for name in ("channel", "home")
    }
    state = _numbers(_column(rows, "state", str(path)), "state", str(path)) if "state" in rows.column_names else costs
    return KeyTable(sorted_keys, xxhash64([sorted_keys]), costs[order], state[order], owners["channel"], owners["home"])


def _read(path: Path) -> pa.Table:
    if not path.exists():
        raise ArgumentError("there is no such file", got=str(path))
    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            return pa.parquet.read_table(path)
        if path.suffix.lower() in {".csv", ".txt"}:
            return pa.csv.read_csv(path)
    except pa.ArrowException as error:
        raise FormatError(f"the file cannot be read: {error}", where=str(path)) from error
    raise ArgumentError("statistics are read from .csv or .parquet files", got=path.name)


def _column(rows: pa.Table, name: str, where: str) -> pa.Array:
    if name not in rows.column_names:
        near = difflib.get_close_matches(name, rows.column_names, n=1)
        found = f"rename {near[0]!r}" if near else f"the file has {', '.join(rows.column_names) or 'no columns'}"
        raise ColumnError(f"column {name!r} is missing", where=where, hint=found)
    column = rows.column(name).combine_chunks()
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _numbers(column: pa.Array, name: str, where: str) -> Column:
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise StatisticsError(f"column {name!r} is not numeric: {error}", where=where) from error
    return checked_column(numbers, len(column), name)


def _channels(column: pa.Array, name: str, where: str) -> NDArray[np.int32]:
    numbers = _numbers(column, name, where)
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (numbers > np.iinfo(np.int32).max))
    if len(bad):
        raise StatisticsError(f"{name} must be a channel number", where=f"row {bad[0]}", got=float(numbers[bad[0]]))
    return numbers.astype(np.int32)


def _refuse_repeated(keys: pa.Array, order: NDArray[np.int64], where: str) -> None:
    if len(keys) < 2:
        return
    same = pc.fill_null(pc.equal(keys[1:], keys[:-1]), False).to_numpy(zero_copy_only=False)
    same |= np.logical_and(*(part.is_null().to_numpy(zero_copy_only=False) for part in (keys[1:], keys[:-1])))
    if same.any():
        at = int(np.flatnonzero(same)[0])
        raise StatisticsError(
            f"key {keys[at].as_py()!r} stands in rows {order[at]} and {order[at + 1]}",
            where=where,
            hint="add up the rows of a key first",
        )
