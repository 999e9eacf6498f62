"""Arrow buffers as numpy views: nothing is copied, and slices and offsets are respected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import DTypeLike, NDArray

_LARGE = {pa.large_string(), pa.large_binary()}
_VIEWS = {pa.string_view(), pa.binary_view()}
_BYTES = {pa.string(), pa.binary(), *_LARGE, *_VIEWS}


def fixed_width(array: pa.Array, dtype: DTypeLike) -> NDArray[Any]:
    """Return the values of a fixed-width array as a read-only view; those of nulls are arbitrary."""
    return _view(array.buffers()[1], np.dtype(dtype), array.offset, len(array))


def validity(array: pa.Array) -> NDArray[np.uint8]:
    """Return the bitmap of an array with nulls: row i is valid if bit ``array.offset + i`` is set."""
    return _view(array.buffers()[0], np.dtype(np.uint8), 0, (array.offset + len(array) + 7) // 8)


def is_bytes(kind: pa.DataType) -> bool:
    """Tell whether `byte_ranges` takes arrays of this type: strings and binaries of any layout."""
    return kind in _BYTES or pa.types.is_fixed_size_binary(kind)


def byte_ranges(array: pa.Array) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Return offsets and data of a string or binary array: row i is ``data[offsets[i]:offsets[i + 1]]``.

    String and binary views are copied once into the classic layout; fixed-size binaries get computed offsets.
    """
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        width = kind.byte_width
        data = _view(array.buffers()[1], np.dtype(np.uint8), array.offset * width, len(array) * width)
        return np.arange(len(array) + 1, dtype=np.int64) * width, data
    if kind in _VIEWS:
        array = array.cast(pa.large_binary())
    offset_type = np.dtype(np.int64 if array.type in _LARGE else np.int32)
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
