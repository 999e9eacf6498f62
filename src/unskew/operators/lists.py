"""Converts between list columns and the elements they hold."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.operators.base import Mask, Numbers


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, without a copy if it has one chunk."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def concatenated(lists: pa.Array) -> tuple[pa.Array, Numbers]:
    """Return all elements one after the other, and the list that each is from; a null list has none.

    >>> elements, list_of_element = concatenated(pa.array([[5, 6], None, [7]]))
    >>> elements.to_pylist(), list_of_element.tolist()
    ([5, 6, 7], [0, 0, 2])
    """
    return lists.flatten(), np.repeat(np.arange(len(lists)), lengths_of(lists))


def spread_out(lists: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return all elements one after the other, and where each list starts in them; a null list has none.

    >>> elements, starts = spread_out(pa.array([[5, 6], None, [7]]))
    >>> elements.to_pylist(), starts.tolist()
    ([5, 6, 7], [0, 2, 2, 3])
    """
    return lists.flatten(), starts_of(lengths_of(lists)).astype(np.int32)


def lengths_of(lists: pa.Array) -> Numbers:
    """Return the number of elements of each list, 0 for null."""
    lengths = pc.list_value_length(lists)
    return np.asarray((lengths.fill_null(0) if lengths.null_count else lengths).to_numpy(), np.int64)


def starts_of(lengths: Numbers | Mask) -> Numbers:
    """Return where each of several stretches starts, and where the last one ends."""
    return np.concatenate(([0], np.cumsum(lengths)))


def cut(elements: pa.Array, lengths: Numbers) -> pa.Array:
    """Return lists of these lengths, made of elements that lie one after the other.

    >>> cut(pa.array([5, 6, 7]), np.array([2, 0, 1])).to_pylist()
    [[5, 6], [], [7]]
    """
    return pa.ListArray.from_arrays(pa.array(starts_of(lengths), pa.int32()), elements)
