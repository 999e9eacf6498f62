"""A user's function, called for every group of a channel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError
from unskew.runtime.cutting import taken
from unskew.runtime.wire import HASH_COLUMN
from unskew.spark.batch.routing import gathered
from unskew.spark.per_key import ArrowSettings
from unskew.spark.per_key.frame_output import FrameOutput
from unskew.spark.per_key.frames import Frames, key_tuples
from unskew.state import Groups, group_rows

ROWS_CONVERTED_AT_ONCE = 1 << 17
WHOLE_GROUPS = (1 << 31) - 1


def wants_key(function: Callable[..., Any], inputs: int) -> bool:
    """Tell whether a function takes the key before its frames, by the number of its arguments, as Spark does."""
    if not callable(function):
        raise ArgumentError("this is not a function", got=function)
    arguments = len(inspect.getfullargspec(function).args) - inspect.ismethod(function)
    if not inputs <= arguments <= inputs + 1:
        frames = ", ".join(("left", "right")[:inputs]) if inputs > 1 else "frame"
        raise ArgumentError(
            f"a function takes ({frames}) or (key, {frames})", got=f"{arguments} arguments", where=repr(function)
        )
    return arguments == inputs + 1


@dataclass(frozen=True)
class GroupCalls:
    """A function for ``mapInArrow`` behind the shuffle: a channel's parcels in, what the user's function returns out.

    A channel's rows are held in memory; they are shown as pandas frames, and their output is given on, slab by slab.

    Parameters
    ----------
    function, takes_key
        The user's function, and whether it takes the key before the frames.
    keys
        The key's columns, one tuple per input.
    schemas
        The columns of each input.
    output
        What the function returns.
    settings
        How Spark would convert rows.
    """

    function: Callable[..., Any]
    takes_key: bool
    keys: tuple[tuple[str, ...], ...]
    schemas: tuple[pa.Schema, ...]
    output: StructType
    settings: ArrowSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call the function for every group of one channel."""
        tables = gathered(batches, self.schemas)
        groups = _grouped(tables, self.keys)
        orders = [_order(part, len(groups)) for part in _parts(groups, tables)]
        rows = np.sum([np.diff(starts) for _, starts in orders], axis=0)
        for first, end in _slabs(rows):
            yield from self._slab(tables, orders, groups, first, end).to_batches()

    def _slab(self, tables: list[pa.Table], orders: list[_Order], groups: Groups, first: int, end: int) -> pa.Table:
        whole = replace(self.settings, rows_per_frame=WHOLE_GROUPS)
        sides = [
            _side(table.select(schema.names), order, starts[first : end + 1], whole)
            for table, schema, (order, starts) in zip(tables, self.schemas, orders, strict=True)
        ]
        keys = key_tuples(groups.keys.slice(first, end - first), self.settings)
        output = FrameOutput(self.output, self.settings, lambda group: f"in the call for key {keys[group]}")
        for group, key in enumerate(keys):
            frames = [side(group) for side in sides]
            try:
                output.take((self.function(key, *frames) if self.takes_key else self.function(*frames),), group)
            except Exception as error:
                error.add_note(f"in the call for key {key}")
                raise
        return output.to_arrow()


_Order = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The rows of group 0, of group 1, ..., and where each group starts among them."""


def _grouped(tables: Sequence[pa.Table], keys: Sequence[tuple[str, ...]]) -> Groups:
    """Group the rows of all inputs together; keys are called as in the first."""
    names = list(keys[0])
    columns = [
        table.select([*key, HASH_COLUMN]).rename_columns([*names, HASH_COLUMN])
        for table, key in zip(tables, keys, strict=True)
    ]
    together = pa.concat_tables(columns) if len(columns) > 1 else columns[0]
    return group_rows(together.select(names), together.column(HASH_COLUMN).to_numpy(), names)


def _parts(groups: Groups, tables: Sequence[pa.Table]) -> list[NDArray[np.int64]]:
    return np.split(groups.group_of_row, np.cumsum([table.num_rows for table in tables])[:-1])


def _order(group_of_row: NDArray[np.int64], groups: int) -> _Order:
    starts = np.concatenate(([0], np.cumsum(np.bincount(group_of_row, minlength=groups))))
    return np.argsort(group_of_row, kind="stable"), starts


def _slabs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut groups into runs of not too many rows: yields the first group and the one behind the last."""
    slab = (np.cumsum(rows) - rows) // ROWS_CONVERTED_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(slab)) + 1).tolist(), len(rows)]
    yield from ((first, end) for first, end in pairwise(bounds) if end > first)


def _side(
    table: pa.Table, order: NDArray[np.int64], starts: NDArray[np.int64], settings: ArrowSettings
) -> Callable[[int], pd.DataFrame]:
    """Return what gives the frame of a group; one without rows if the group has none on this side."""
    chosen = taken(table, order[starts[0] : starts[-1]]).combine_chunks()
    filled = np.flatnonzero(np.diff(starts))
    empty = pd.concat(settings.to_pandas(pa.RecordBatch.from_pylist([], table.schema)), axis=1)
    if not len(filled):
        return lambda group: empty.copy()
    frames = Frames(chosen.to_batches()[0], np.append(starts[filled], starts[-1]) - starts[0], settings)
    place = dict(zip(filled.tolist(), range(len(filled)), strict=True))

    def frame(group: int) -> pd.DataFrame:
        at = place.get(group)
        return empty.copy() if at is None else next(frames(at))

    return frame
