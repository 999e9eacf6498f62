"""Stable 64-bit hashes of whole Arrow columns, equal bit for bit to Spark's ``xxhash64``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

from unskew.errors import ArgumentError, ColumnError, did_you_mean, require_list
from unskew.hashing.folds import fold_of

SPARK_SEED = 42


def xxhash64(
    columns: Sequence[pa.Array | pa.ChunkedArray], *, names: Sequence[str] | None = None, seed: int = SPARK_SEED
) -> NDArray[np.int64]:
    """Hash the rows of `columns` as Spark's ``xxhash64(column, ...)`` does; `names` are for error messages.

    The hash of each column is the seed of the next one; a null passes the seed on unchanged. -0.0 hashes as 0.0, and
    all NaNs hash alike. Timestamps and durations count microseconds; finer units are rounded down. Structs are hashed
    field by field, lists element by element, and a dictionary's values once each where that is cheaper. Types that
    Spark does not have or does not hash, such as unsigned integers and maps, raise `KeyTypeError`.

    Buffers are read in place. The cost is O(rows) for fixed widths and O(bytes) for strings; lists take one pass over
    the rows for every position of the longest list.

    >>> xxhash64([pa.array(["Spark"]), pa.array([[123]], pa.list_(pa.int32())), pa.array([2], pa.int32())])
    array([5602566077635097486])
    """
    if not columns:
        raise ArgumentError("there is no column to hash", hint="name at least one key column")
    names = [str(position) for position in range(len(columns))] if names is None else names
    lengths = [len(column) for column in columns]
    if len(set(lengths)) > 1:
        raise ArgumentError("columns differ in length", where=f"columns {', '.join(names)}", got=lengths)
    folds = [fold_of(column.type, f"column {name!r}") for name, column in zip(names, columns, strict=True)]
    hashes = np.full(lengths[0], np.uint64(seed & 0xFFFF_FFFF_FFFF_FFFF))
    for fold, column in zip(folds, columns, strict=True):
        start = 0
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            fold(chunk, hashes[start : start + len(chunk)])
            start += len(chunk)
    return hashes.view(np.int64)


def hash_keys(rows: pa.Table | pa.RecordBatch, key: str | Sequence[str]) -> NDArray[np.int64]:
    """Hash the key column, or the key columns together, of a table or record batch as Spark's ``xxhash64`` does.

    A column that is missing, ambiguous or holds only nulls of no type raises `ColumnError`; one whose type cannot be
    hashed raises `KeyTypeError`.

    Examples
    --------
    >>> rows = pa.table({"user": ["ada", "bob", "ada"], "day": [1, 1, 2]})
    >>> ada, bob, ada_again = hash_keys(rows, "user").tolist()
    >>> ada == ada_again, ada == bob
    (True, False)
    >>> len(set(hash_keys(rows, ["user", "day"])))
    3
    >>> hash_keys(rows, "usr")
    Traceback (most recent call last):
    unskew.errors.ColumnError: there is no column of that name, got 'usr'. Hint: did you mean 'user'.
    """
    if not isinstance(rows, pa.Table | pa.RecordBatch):
        raise ArgumentError("rows must be an Arrow table or record batch", got=rows)
    names = [key] if isinstance(key, str) else require_list("key", key)
    return xxhash64([_key_column(rows, name) for name in names], names=names)


def _key_column(rows: pa.Table | pa.RecordBatch, name: str) -> pa.Array | pa.ChunkedArray:
    if not isinstance(name, str):
        raise ColumnError("a key column is given by its name", got=name, hint=f"one of {', '.join(rows.schema.names)}")
    places = rows.schema.get_all_field_indices(name)
    if not places:
        raise ColumnError("there is no column of that name", got=name, hint=did_you_mean(name, rows.schema.names))
    if len(places) > 1:
        raise ColumnError(f"{len(places)} columns have the name of the key", got=name, hint="rename all but one")
    column = rows.column(places[0])
    if types.is_null(column.type):
        hint = "cast it to the type it should have, or choose another key"
        raise ColumnError("the key column holds only nulls", where=f"column {name!r}", got="null", hint=hint)
    return column
