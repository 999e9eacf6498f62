"""The rows of a batch as pandas frames, one or more per key, equal to those that Spark would make."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.core.internals import BlockManager  # type: ignore[import-not-found]
from pyarrow import types

from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.null_patterns import null_patterns

Numbers = NDArray[np.int64]


class Frames:
    """Frames of consecutive groups of rows.

    All rows are converted at once; a frame is then a slice, made when it is asked for, which takes about 10
    microseconds. A group with more rows than a frame may have comes in several frames. A function may change its
    frames: no other group sees it.

    Parameters
    ----------
    rows
        The rows, group after group.
    starts
        Where groups start, and the end, int64[G + 1].
    settings
        How Spark would convert them.

    Examples
    --------
    >>> rows = pa.record_batch({"user": ["ada", "ada", "bob"], "amount": [1, 2, None]})
    >>> frames = Frames(rows, np.array([0, 2, 3]), ArrowSettings())
    >>> for group in range(2):
    ...     for frame in frames(group):
    ...         print(frame.to_dict("list"), str(frame["amount"].dtype))
    {'user': ['ada', 'ada'], 'amount': [1, 2]} int64
    {'user': ['bob'], 'amount': [nan]} float64
    """

    def __init__(self, rows: pa.RecordBatch, starts: Numbers, settings: ArrowSettings) -> None:
        bounds, first_parts = _parts(starts, settings.rows_per_frame)
        lengths = np.diff(bounds)
        patterns = null_patterns(rows, bounds)
        begins = np.empty(len(lengths), np.int64)
        self._cutters: list[Cutter] = []
        for pattern in range(int(patterns.max(initial=-1)) + 1):
            alike = patterns == pattern
            chosen = rows if alike.all() else rows.filter(pa.array(np.repeat(alike, lengths)))
            begins[alike] = np.cumsum(lengths[alike]) - lengths[alike]
            self._cutters.append(Cutter(pd.concat(settings.to_pandas(chosen), axis=1)))
        self._first_parts: list[int] = first_parts.tolist()
        self._patterns: list[int] = patterns.tolist()
        self._begins, self._ends = begins.tolist(), (begins + lengths).tolist()

    def __call__(self, group: int) -> Iterator[pd.DataFrame]:
        """Return the frames of a group, each made when its turn comes."""
        return map(self._frame, range(self._first_parts[group], self._first_parts[group + 1]))

    def _frame(self, part: int) -> pd.DataFrame:
        return self._cutters[self._patterns[part]](self._begins[part], self._ends[part])


class Cutter:
    """Cuts pieces out of a frame; each has a range index from 0, as a frame of its own would have.

    It does what pandas' own ``groupby`` does to split a frame, by the same means. ``iloc`` and a new index are four
    times slower.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        inner: Any = frame
        self._columns = inner.columns
        self._blocks = [
            (type(block), block.values, block.values.ndim == 2, block._mgr_locs) for block in inner._mgr.blocks
        ]
        self._make: Any = inner._from_mgr

    def __call__(self, start: int, stop: int) -> pd.DataFrame:
        """Return the rows from `start` up to `stop`, without copying them."""
        blocks = tuple(
            [
                kind(values[:, start:stop] if flat else values[start:stop], placement=place, ndim=2)
                for kind, values, flat, place in self._blocks
            ]
        )
        axes = [self._columns.view(), _range_index(stop - start).view()]
        frame: pd.DataFrame = self._make(BlockManager(blocks, axes, verify_integrity=False), axes)
        return frame


@lru_cache(maxsize=1024)
def _range_index(length: int) -> Any:
    """Return an index to make views of, which is five times as fast as making one anew."""
    return pd.RangeIndex(length)


def key_tuples(keys: pa.Table, settings: ArrowSettings) -> list[tuple[Any, ...]]:
    """Return keys as Spark gives them to a pandas function: tuples of NumPy scalars, strings, timestamps and so on."""
    columns = [_key_values(column.combine_chunks(), settings) for column in keys.columns]
    return list(zip(*columns, strict=True))


def _key_values(column: pa.Array, settings: ArrowSettings) -> list[Any]:
    if types.is_nested(column.type):
        return [_as_series(column.slice(i, 1), settings)[0] for i in range(len(column))]
    known = _scalars(_as_series(column.drop_null(), settings))
    if not column.null_count:
        return known
    absent = _as_series(pa.nulls(1, column.type), settings)[0]
    values: list[Any] = [absent] * len(column)
    for i, value in zip(np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).tolist(), known, strict=True):
        values[i] = value
    return values


def _as_series(column: pa.Array, settings: ArrowSettings) -> pd.Series[Any]:
    return settings.to_pandas(pa.RecordBatch.from_arrays([column], ["key"]))[0]


def _scalars(series: pd.Series[Any]) -> list[Any]:
    """Return what indexing would return, element by element."""
    if isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufO":
        return list(series.to_numpy())
    return list(series.array)


def _parts(starts: Numbers, rows_per_frame: int) -> tuple[Numbers, Numbers]:
    """Cut groups into parts of at most so many rows; return where parts begin, and the first part of each group."""
    counts = np.diff(starts)
    if counts.max(initial=0) <= rows_per_frame and counts.min(initial=1) > 0:
        return starts, np.arange(len(starts))
    parts = -(-counts // rows_per_frame)
    first_parts = np.concatenate(([0], np.cumsum(parts)))
    number = np.arange(first_parts[-1]) - np.repeat(first_parts[:-1], parts)
    begins = np.repeat(starts[:-1], parts) + number * rows_per_frame
    return np.append(begins, starts[-1]), first_parts
