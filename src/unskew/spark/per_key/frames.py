"""The rows of a batch as pandas frames, one or more per key, equal to those that Spark would make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pandas.core.internals import BlockManager  # type: ignore[import-not-found]
from pyarrow import types

from unskew.spark.per_key.arrow_settings import ArrowSettings
from unskew.spark.per_key.plain_values import spread
from unskew.spark.per_key.quick_frames import range_index
from unskew.versions.arrow import FIELDS_AS_COLUMNS

Numbers = NDArray[np.int64]


class Frames:
    """Frames of consecutive groups of rows.

    All rows are converted at once; a frame is then a slice, made when it is asked for, which takes about 10
    microseconds. A group with more rows than a frame may have comes in several frames. A function may change its
    frames: no other group sees it. Groups lie one after the other; `starts` says where, and ends with the end.
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
    """Cuts pieces out of a frame, each with a range index from 0. Works as ``groupby`` does; ``iloc`` is 4 x slower."""

    def __init__(self, frame: pd.DataFrame) -> None:
        inner: Any = frame
        self._columns = inner.columns
        self._blocks = [
            (type(block), block.values, block.values.ndim == 2, block._mgr_locs) for block in inner._mgr.blocks
        ]
        self._blknos, self._blklocs = inner._mgr.blknos, inner._mgr.blklocs
        self._make: Any = inner._from_mgr

    def __call__(self, start: int, stop: int) -> pd.DataFrame:
        """Return the rows from `start` up to `stop`, without copying them."""
        blocks = tuple(
            [
                kind(values[:, start:stop] if flat else values[start:stop], placement=place, ndim=2)
                for kind, values, flat, place in self._blocks
            ]
        )
        axes = [self._columns.view(), range_index(stop - start).view()]
        manager = BlockManager(blocks, axes, verify_integrity=False)
        manager._blknos, manager._blklocs = self._blknos.copy(), self._blklocs.copy()
        frame: pd.DataFrame = self._make(manager, axes)
        return frame


def key_tuples(keys: pa.Table, settings: ArrowSettings) -> list[tuple[Any, ...]]:
    """Return keys as Spark gives them to a pandas function: tuples of NumPy scalars, strings, timestamps and so on."""
    columns = [_key_values(column.combine_chunks(), settings) for column in keys.columns]
    return list(zip(*columns, strict=True))


def _key_values(column: pa.Array, settings: ArrowSettings) -> list[Any]:
    if types.is_nested(column.type):
        return [_as_series(column.slice(i, 1), settings)[0] for i in range(len(column))]
    series = _as_series(column.drop_null(), settings)
    plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "biufO"
    known = list(series.to_numpy() if plain else series.array)
    if not column.null_count:
        return known
    return spread(known, column, _as_series(pa.nulls(1, column.type), settings)[0])


def _as_series(column: pa.Array, settings: ArrowSettings) -> pd.Series[Any]:
    return settings.to_pandas(pa.RecordBatch.from_arrays([column], ["key"]))[0]


def _parts(starts: Numbers, rows_per_frame: int) -> tuple[Numbers, Numbers]:
    """Cut groups into parts that fit into a frame; return where parts begin, and the first part of each group."""
    counts = np.diff(starts)
    if counts.max(initial=0) <= rows_per_frame and counts.min(initial=1) > 0:
        return starts, np.arange(len(starts))
    parts = -(-counts // rows_per_frame)
    first_parts = np.concatenate(([0], np.cumsum(parts)))
    number = np.arange(first_parts[-1]) - np.repeat(first_parts[:-1], parts)
    begins = np.repeat(starts[:-1], parts) + number * rows_per_frame
    return np.append(begins, starts[-1]), first_parts


def null_patterns(rows: pa.RecordBatch, bounds: Numbers) -> Numbers:
    """Number the parts of rows between `bounds`; parts with the same number may become pandas frames together.

    Spark converts the rows of each key on their own. Converted together, one null would turn an integer column into
    floats for all keys. Parts are alike if the same columns have nulls in them, among those where pandas shows it:
    integers and booleans, also as elements of arrays. No part is empty.

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


def _flags(column: pa.Array, shown_as_array: bool) -> list[NDArray[np.bool_]]:
    """Say which rows have a null, for each leaf that matters and has any."""
    kind = column.type
    if types.is_integer(kind) or types.is_boolean(kind):
        return (
            [np.asarray(column.is_null().to_numpy(zero_copy_only=False))]
            if shown_as_array and column.null_count
            else []
        )
    if types.is_list(kind) or types.is_large_list(kind):
        return _per_list(column.offsets, column.values, shown_as_array=True)
    if types.is_map(kind):
        both = [_per_list(column.offsets, part, shown_as_array=False) for part in (column.keys, column.items)]
        return both[0] + both[1]
    if types.is_struct(kind):
        fields = column.flatten() if FIELDS_AS_COLUMNS else [column.field(i) for i in range(kind.num_fields)]
        return [flag for field in fields for flag in _flags(field, shown_as_array=FIELDS_AS_COLUMNS)]
    return []


def _per_list(offsets: pa.Array, values: pa.Array, shown_as_array: bool) -> list[NDArray[np.bool_]]:
    place = offsets.to_numpy()
    first, last = int(place[0]), int(place[-1])
    found = []
    for flag in _flags(values.slice(first, last - first), shown_as_array):
        so_far = np.concatenate(([0], np.cumsum(flag)))
        found.append(so_far[place[1:] - first] > so_far[place[:-1] - first])
    return found
