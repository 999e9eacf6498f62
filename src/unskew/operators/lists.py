"""Columns of lists and what they hold, back and forth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


def concatenated(lists: pa.Array) -> tuple[pa.Array, Numbers]:
    """Return all elements one after the other, and the list that each is from; a null list has none.

    Examples
    --------
    >>> elements, list_of_element = concatenated(pa.array([[5, 6], None, [7]]))
    >>> elements.to_pylist(), list_of_element.tolist()
    ([5, 6, 7], [0, 0, 2])
    """
    return lists.flatten(), np.repeat(np.arange(len(lists)), lengths_of(lists))


def spread_out(lists: pa.Array) -> tuple[pa.Array, NDArray[np.int32]]:
    """Return all elements one after the other, and where each list starts in them; a null list has none.

    Examples
    --------
    >>> elements, starts = spread_out(pa.array([[5, 6], None, [7]]))
    >>> elements.to_pylist(), starts.tolist()
    ([5, 6, 7], [0, 2, 2, 3])
    """
    return lists.flatten(), _starts(lengths_of(lists))


def lengths_of(lists: pa.Array) -> Numbers:
    """Return the number of elements of each list, 0 for null."""
    lengths = pc.list_value_length(lists)
    return np.asarray((lengths.fill_null(0) if lengths.null_count else lengths).to_numpy(), np.int64)


def cut(elements: pa.Array, lengths: Numbers) -> pa.Array:
    """Return lists of these lengths, made of elements that lie one after the other.

    Examples
    --------
    >>> cut(pa.array([5, 6, 7]), np.array([2, 0, 1])).to_pylist()
    [[5, 6], [], [7]]
    """
    return pa.ListArray.from_arrays(pa.array(_starts(lengths)), elements)


def _starts(lengths: Numbers) -> NDArray[np.int32]:
    starts = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=starts[1:])
    return starts
