"""Exact comparison of keys, row by row: null equals null, NaN equals NaN, -0.0 equals 0.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

Matches = NDArray[np.bool_]


def same_keys(left: pa.Table, right: pa.Table) -> Matches:
    """Tell for each row whether the columns of two tables of the same schema and length hold equal keys.

    Examples
    --------
    >>> left = pa.table({"user": ["ada", None, "bob"], "spot": [[1.0], [float("nan")], []]})
    >>> right = pa.table({"user": ["ada", None, "bob"], "spot": [[1.5], [float("nan")], []]})
    >>> same_keys(left, right).tolist()
    [False, True, True]
    """
    matches = np.ones(left.num_rows, np.bool_)
    for one, other in zip(left.columns, right.columns, strict=True):
        matches &= _same(_joined(one), _joined(other))
    return matches


def _same(left: pa.Array, right: pa.Array) -> Matches:
    values = _same_values(left, right)
    if left.null_count == 0 and right.null_count == 0:
        return values
    left_valid, right_valid = _boolean(left.is_valid()), _boolean(right.is_valid())
    return np.where(left_valid & right_valid, values, left_valid == right_valid)


def _same_values(left: pa.Array, right: pa.Array) -> Matches:
    """Compare what two arrays hold; what is said where either is null does not matter."""
    kind = left.type
    if types.is_dictionary(kind):
        return _same(left.dictionary_decode(), right.dictionary_decode())
    if types.is_struct(kind):
        matches = np.ones(len(left), np.bool_)
        for one, other in zip(left.flatten(), right.flatten(), strict=True):
            matches &= _same(one, other)
        return matches
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _same_lists(left, right)
    if types.is_null(kind):
        return np.ones(len(left), np.bool_)
    matches = _boolean(pc.fill_null(pc.equal(left, right), False))
    if types.is_floating(kind):
        matches |= _boolean(pc.fill_null(pc.and_(pc.is_nan(left), pc.is_nan(right)), False))
    return matches


def _same_lists(left: pa.Array, right: pa.Array) -> Matches:
    lengths, other_lengths = _lengths(left), _lengths(right)
    matches: Matches = lengths == other_lengths
    rows = np.flatnonzero(matches & (lengths > 0))
    if rows.size:
        at = pa.array(rows)
        elements = _same(left.take(at).flatten(), right.take(at).flatten())
        starts = np.cumsum(lengths[rows]) - lengths[rows]
        matches[rows] = np.logical_and.reduceat(elements, starts)
    return matches


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    """Return the number of elements of each list, -1 for null."""
    return np.asarray(pc.fill_null(pc.cast(pc.list_value_length(lists), pa.int64()), -1).to_numpy(zero_copy_only=False))


def _boolean(array: pa.Array) -> Matches:
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
