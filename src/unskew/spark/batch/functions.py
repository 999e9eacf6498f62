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
    """Tell from the number of its arguments whether a function takes the key before its frames, as Spark does."""
    if not callable(function):
        raise ArgumentError("this is not a function", got=function)
    arguments = len(inspect.getfullargspec(function).args) - inspect.ismethod(function)
    if not inputs <= arguments <= inputs + 1:
        frames = "left, right" if inputs > 1 else "frame"
        what = f"a function takes ({frames}) or (key, {frames})"
        raise ArgumentError(what, got=f"{arguments} arguments", where=repr(function))
    return arguments == inputs + 1


@dataclass(frozen=True)
class GroupCalls:
    """A function for ``mapInArrow`` behind the shuffle: a channel's parcels in, the user's rows out, slab by slab.

    A channel's rows are held in memory.
    """

    function: Callable[..., Any]
    takes_key: bool  # before the frames
    keys: tuple[tuple[str, ...], ...]  # key columns of each input
    schemas: tuple[pa.Schema, ...]  # of each input
    output: StructType
    settings: ArrowSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tables = gathered(batches, self.schemas)
        groups = _grouped(tables, self.keys)
        parts = np.split(groups.group_of_row, np.cumsum([table.num_rows for table in tables])[:-1])
        sides = [Groups(groups.hashes, groups.keys, part) for part in parts]
        for first, end in _slabs(groups.counts):
            yield from self._slab(tables, sides, first, end).to_batches()

    def _slab(self, tables: list[pa.Table], groups: list[Groups], first: int, end: int) -> pa.Table:
        whole = replace(self.settings, rows_per_frame=WHOLE_GROUPS)
        sides = [
            _side(table.select(schema.names), side.order, side.starts[first : end + 1], whole)
            for table, schema, side in zip(tables, self.schemas, groups, strict=True)
        ]
        keys = key_tuples(groups[0].keys.slice(first, end - first), self.settings)
        output = FrameOutput(self.output, self.settings, lambda group: f"in the call for key {keys[group]}")
        for group, key in enumerate(keys):
            frames = [side(group) for side in sides]
            try:
                output.take((self.function(key, *frames) if self.takes_key else self.function(*frames),), group)
            except Exception as error:
                error.add_note(f"in the call for key {key}")
                raise
        return output.to_arrow()


def _grouped(tables: Sequence[pa.Table], keys: Sequence[tuple[str, ...]]) -> Groups:
    """Group the rows of all inputs together; keys are called as in the first."""
    names = list(keys[0])
    columns = [
        table.select([*key, HASH_COLUMN]).rename_columns([*names, HASH_COLUMN])
        for table, key in zip(tables, keys, strict=True)
    ]
    together = pa.concat_tables(columns) if len(columns) > 1 else columns[0]
    return group_rows(together.select(names), together.column(HASH_COLUMN).to_numpy(), names)


def _slabs(rows: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Cut groups into runs of limited size: yield the first group and the one behind the last."""
    slab = (np.cumsum(rows) - rows) // ROWS_CONVERTED_AT_ONCE
    bounds = [0, *(np.flatnonzero(np.diff(slab)) + 1).tolist(), len(rows)]
    yield from ((first, end) for first, end in pairwise(bounds) if end > first)


def _side(
    table: pa.Table, order: NDArray[np.int64], starts: NDArray[np.int64], settings: ArrowSettings
) -> Callable[[int], pd.DataFrame]:
    """Return a function that gives the frame of a group, without rows if the group has none on this side."""
    rows = taken(table, order[starts[0] : starts[-1]]).combine_chunks().to_batches()
    frames = Frames(rows[0], starts - starts[0], settings) if rows else None
    empty = pd.concat(settings.to_pandas(pa.RecordBatch.from_pylist([], table.schema)), axis=1)

    def frame(group: int) -> pd.DataFrame:
        found = None if frames is None else next(frames(group), None)
        return empty.copy() if found is None else found

    return frame
