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
    """Keys with their load and, if the file has them, their channels; sorted by key."""

    keys: pa.Array  # unique, as they stand in the file
    hashes: NDArray[np.int64]
    cost: Column
    state: Column  # the cost if the file has no state
    channel: NDArray[np.int32] | None  # current owner
    home: NDArray[np.int32] | None  # owner by hash


def read_key_table(path: str | Path) -> KeyTable:
    """Read a CSV or Parquet file with columns ``key, cost`` and optionally ``state, channel, home``.

    A missing column raises `ColumnError`. A number that is NaN, negative or missing, or a repeated key, raises a
    `StatisticsError` that names the row, counted from 0.
    """
    rows = _read(Path(path))
    where = str(path)
    keys, cost = _column(rows, "key", where), _numbers(rows, "cost", where)
    state = _numbers(rows, "state", where) if "state" in rows.column_names else cost
    owners = [_channels(rows, name, where) if name in rows.column_names else None for name in ("channel", "home")]
    _refuse_repeated(keys, where)
    order = pc.sort_indices(keys).to_numpy()
    keys = keys.take(pa.array(order))
    channel, home = (None if owner is None else owner[order] for owner in owners)
    return KeyTable(keys, xxhash64([keys]), cost[order], state[order], channel, home)


def _read(path: Path) -> pa.Table:
    if not path.exists():
        raise ArgumentError("there is no such file", got=str(path))
    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            return pa.parquet.read_table(path)
        if path.suffix.lower() in {".csv", ".txt"}:
            return pa.csv.read_csv(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"the file cannot be read: {error}", where=str(path)) from error
    raise ArgumentError("statistics are read from .csv or .parquet files", got=path.name)


def _column(rows: pa.Table, name: str, where: str) -> pa.Array:
    if name not in rows.column_names:
        near = difflib.get_close_matches(name, rows.column_names, n=1)
        found = f"rename {near[0]!r}" if near else f"the file has {', '.join(rows.column_names) or 'no columns'}"
        raise ColumnError(f"column {name!r} is missing", where=where, hint=found)
    if rows.column_names.count(name) > 1:
        raise ColumnError("two columns have the same name", where=where, got=name, hint="rename one of them")
    column = rows.column(name).combine_chunks()
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _numbers(rows: pa.Table, name: str, where: str) -> Column:
    column = _column(rows, name, where)
    try:
        numbers = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowException as error:
        raise StatisticsError(f"column {name!r} is not numeric: {error}", where=where) from error
    return checked_column(numbers, len(column), name)


def _channels(rows: pa.Table, name: str, where: str) -> NDArray[np.int32]:
    numbers = _numbers(rows, name, where)
    bad = np.flatnonzero((numbers != np.floor(numbers)) | (numbers > np.iinfo(np.int32).max))
    if len(bad):
        raise StatisticsError(f"{name} must be a channel number", where=f"row {bad[0]}", got=float(numbers[bad[0]]))
    return numbers.astype(np.int32)


def _refuse_repeated(keys: pa.Array, where: str) -> None:
    codes = keys.dictionary_encode(null_encoding="encode").indices.to_numpy()
    _, first, code = np.unique(codes, return_index=True, return_inverse=True)
    repeated = np.flatnonzero(first[code] != np.arange(len(codes)))
    if len(repeated):
        row = repeated[0]
        what = f"key {keys[row].as_py()!r} stands in rows {first[code[row]]} and {row}"
        raise StatisticsError(what, where=where, hint="add up the rows of each key first")
