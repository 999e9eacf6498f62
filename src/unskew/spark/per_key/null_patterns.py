"""Where nulls decide how pandas shows a column: a frame with a null integer has floats, its neighbour has not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import types

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]


def null_patterns(rows: pa.RecordBatch, bounds: Numbers) -> Numbers:
    """Number parts of rows so that parts with the same number can be converted to pandas together.

    Spark converts the rows of every key by themselves. Converted together, an integer column would be shown as floats
    for all keys if one of them had a null. Parts are alike when the same columns have nulls in them, of those columns
    whose type in pandas depends on it: integers and booleans, also as elements of arrays.

    Parameters
    ----------
    rows
        The rows, part after part.
    bounds
        Where parts begin, and the end, int64[P + 1]; no part is empty.

    Examples
    --------
    >>> rows = pa.record_batch({"n": [1, 2, None, 4], "x": [None, 1.5, 2.5, 3.5]})
    >>> null_patterns(rows, np.array([0, 2, 3, 4])).tolist()
    [0, 1, 0]
    """
    flags = [flag for column in rows.columns for flag in _flags(column, shown_as_array=True)]
    if not flags or len(bounds) < 2:
        return np.zeros(len(bounds) - 1, np.int64)
    per_part = np.stack([np.logical_or.reduceat(flag, bounds[:-1]) for flag in flags], axis=1)
    _, pattern = np.unique(per_part, axis=0, return_inverse=True)
    return pattern.reshape(-1).astype(np.int64)


def _flags(column: pa.Array, shown_as_array: bool) -> list[Mask]:
    """Return for each leaf that matters and has nulls which rows have one."""
    kind = column.type
    if types.is_integer(kind) or types.is_boolean(kind):
        return [_is_null(column)] if shown_as_array and column.null_count else []
    if types.is_list(kind) or types.is_large_list(kind):
        return _per_list(column.offsets, column.values, shown_as_array=True)
    if types.is_map(kind):
        return [
            flag
            for part in (column.keys, column.items)
            for flag in _per_list(column.offsets, part, shown_as_array=False)
        ]
    if types.is_struct(kind):
        return [flag for i in range(kind.num_fields) for flag in _flags(column.field(i), shown_as_array=False)]
    return []


def _per_list(offsets: pa.Array, values: pa.Array, shown_as_array: bool) -> list[Mask]:
    place = offsets.to_numpy()
    first, last = int(place[0]), int(place[-1])
    found = []
    for flag in _flags(values.slice(first, last - first), shown_as_array):
        so_far = np.concatenate(([0], np.cumsum(flag)))
        found.append(so_far[place[1:] - first] > so_far[place[:-1] - first])
    return found


def _is_null(column: pa.Array) -> Mask:
    return np.asarray(column.is_null().to_numpy(zero_copy_only=False))
