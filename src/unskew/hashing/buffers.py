"""Arrow buffers as numpy views: nothing is copied, slices and offsets are honoured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray


def fixed_width(array: pa.Array, dtype: DTypeLike) -> NDArray[Any]:
    """Return the values of an array of fixed width as a read-only view; what lies under nulls is arbitrary."""
    return _view(array.buffers()[1], np.dtype(dtype), array.offset, len(array))


def validity(array: pa.Array) -> NDArray[np.uint8]:
    """Return the bitmap of an array that has nulls: row i is valid if bit ``array.offset + i`` is set."""
    return _view(array.buffers()[0], np.dtype(np.uint8), 0, (array.offset + len(array) + 7) // 8)


def byte_ranges(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return offsets and data of a string or binary array: row i is ``data[offsets[i]:offsets[i + 1]]``.

    Views and fixed-size binaries have no offsets: the former are copied once into the classic layout,
    the latter get computed ones.
    """
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        data = _view(array.buffers()[1], np.dtype(np.uint8), array.offset * width, len(array) * width)
        return np.arange(len(array) + 1, dtype=np.int64) * width, data
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        array = array.cast(pa.large_binary())
    large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    offset_type = np.dtype(np.int64 if large else np.int32)
    if len(array) == 0:  # Arrow may leave out even the first offset
        return np.zeros(1, offset_type), np.empty(0, np.uint8)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = _view(offset_buffer, offset_type, array.offset, len(array) + 1)
    return offsets, _view(data_buffer, np.dtype(np.uint8), 0, int(offsets[-1]))


def _view(buffer: pa.Buffer | None, dtype: np.dtype[Any], start: int, count: int) -> NDArray[Any]:
    if count == 0 or buffer is None:
        return np.empty(count, dtype)
    view = np.frombuffer(buffer, dtype, count=count, offset=start * dtype.itemsize)
    view.flags.writeable = False  # else numba would compile each kernel twice
    return view
