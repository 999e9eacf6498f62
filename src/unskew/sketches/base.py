"""What every sketch of key frequencies can do, and the columns it takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import ArgumentError, KeyTypeError, StatisticsError, require_number

Column: TypeAlias = NDArray[np.int64] | pa.Array | pa.ChunkedArray  # of int64

MOST_TUPLES = 2**62
LEAST_SHARE = 1e-15


class Sketch(ABC):
    """A bounded summary of how often keys occur in a stream.

    Keys are int64 hashes, in whole columns. Two keys with the same 64-bit hash are one key to a sketch.
    Sketches are deterministic: the same stream gives the same sketch, however it is cut into calls.
    """

    @property
    @abstractmethod
    def n(self) -> int:
        """Tuples seen, weights included."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of entries held."""

    @abstractmethod
    def update(self, hashes: Column) -> None:
        """Count one tuple for each row, in order."""

    @abstractmethod
    def update_counts(self, hashes: Column, counts: Column) -> None:
        """Count a batch that was counted before: row i stands for ``counts[i]`` tuples of ``hashes[i]``.

        A hash may appear in several rows, and a count may be 0.
        """

    @abstractmethod
    def estimate(self, hashes: Column) -> NDArray[np.int64]:
        """Return the estimated number of tuples of each hash."""

    @abstractmethod
    def entries(self) -> pa.Table:
        """Return all entries, the most frequent first, equal counts by hash."""

    @abstractmethod
    def query(self, threshold: float) -> pa.Table:
        """Return the entries of all keys with at least the share `threshold` of the stream, and of some just below."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Return the whole sketch as an Arrow table; `from_arrow` continues exactly where this one stands."""


def hash_column(column: Column, name: str = "hashes") -> NDArray[np.int64]:
    """View a column of int64 without nulls as a numpy array, copying only if needed.

    The view is read-only, as Arrow memory is, so that kernels are compiled for one kind of array only.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        if column.null_count:
            raise KeyTypeError(
                f"the column {name} has {column.null_count} nulls",
                hint="pass hashes of keys; a null key has a hash, too",
            )
        got: object = column.type
        array = column.to_numpy() if column.type == pa.int64() else None
    else:
        got = getattr(column, "dtype", type(column).__name__)
        array = column if isinstance(column, np.ndarray) and column.dtype == np.int64 else None
    if array is None:
        hint = "sketches count 64-bit hashes: hash the key column first"
        raise KeyTypeError(f"the column {name} must be int64, as a numpy or Arrow array", got=str(got), hint=hint)
    if array.ndim != 1:
        raise KeyTypeError(f"the column {name} must have one dimension", got=array.shape)
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def count_column(column: Column, rows: int, seen: int) -> NDArray[np.int64]:
    """View a column of `rows` counts, after checking that they can be added to `seen` without overflow."""
    counts = hash_column(column, "counts")
    if len(counts) != rows:
        raise StatisticsError(f"there are {rows} hashes but {len(counts)} counts")
    if rows and counts.min() < 0:
        row = int(counts.argmin())
        raise StatisticsError("a count is negative", where=f"row {row}", got=int(counts[row]))
    if rows and seen + int(counts.max()) * rows > MOST_TUPLES and seen + sum(counts.tolist()) > MOST_TUPLES:
        raise StatisticsError("a sketch cannot count more than 2**62 tuples")
    return counts


def share(number: float, name: str) -> Fraction:
    """Return a share of the stream as the fraction that it is written as: 0.1 is one tenth.

    Shares are compared with counts exactly, so that a key on the very boundary is not lost to rounding: in floating
    point (0.8 - 0.1) * 10 is more than 7.
    """
    require_number(name, number, whole=False)
    if not LEAST_SHARE <= number <= 1:
        raise ArgumentError(f"{name} must be a share of the stream, from {LEAST_SHARE} to 1", got=number)
    return Fraction(str(number))
