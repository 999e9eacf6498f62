"""How many bytes each row of a table takes in Arrow's layout."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from unskew.hashing.buffers import byte_ranges
from unskew.state.groups import Numbers


def row_bytes(batch: pa.RecordBatch) -> Numbers:
    """Return the bytes of each row: values, offsets and what they point to; validity bits are not counted.

    Costs O(columns) for fixed widths, O(rows) per column of strings, O(elements) for lists.
    """
    total = np.zeros(batch.num_rows, np.int64)
    for column in batch.columns:
        total += _bytes_of(column)
    return total


def _bytes_of(array: pa.Array) -> Numbers | int:
    kind = array.type
    if types.is_null(kind):
        return 0
    if types.is_map(kind):
        array = array.cast(pa.list_(pa.struct([kind.key_field, kind.item_field])))
    if types.is_list(array.type) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _within_lists(array)
    if types.is_fixed_size_binary(kind) or types.is_primitive(kind) or types.is_decimal(kind):
        return (int(kind.bit_width) + 7) // 8
    if types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind) or types.is_large_binary(kind):
        offsets, _ = byte_ranges(array)
        return np.diff(offsets).astype(np.int64) + offsets.itemsize
    if types.is_struct(kind):
        fields = array.flatten()  # a struct may have none
        return row_bytes(pa.RecordBatch.from_arrays(fields, list(map(str, range(len(fields)))))) if fields else 0
    return int(array.nbytes) // max(1, len(array))  # views, unions and the like: the mean


def _within_lists(lists: pa.Array) -> Numbers:
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = lists.flatten()
    before = np.concatenate(([0], np.cumsum(np.broadcast_to(_bytes_of(elements), len(elements)))))
    ends = np.cumsum(lengths)
    return np.asarray(before[ends] - before[ends - lengths] + 4)
