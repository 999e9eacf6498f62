"""Times of rows as numbers, and rows in the order of their times."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.operators.histories import Histories
from unskew.state.groups import Groups

Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def in_microseconds(column: pa.ChunkedArray) -> pa.Array:
    """Return timestamps as microseconds since 1970, null where they are null."""
    return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).combine_chunks()


def has_null_key(groups: Groups) -> Mask:
    """Return for each group whether a column of its key is null: such rows have no partner in SQL."""
    columns = [np.asarray(column.is_null().to_numpy()) for column in groups.keys.columns]
    return reduce(np.logical_or, columns)


def sorted_by_time(histories: Histories, at: Numbers) -> tuple[Histories, Numbers]:
    """Return each group's rows by time, and the times; rows of the same time stay as they are."""
    order = _kernel_order(at, histories.starts)
    if len(order):
        rows = histories.rows.take(pa.array(order))
        histories, at = Histories(rows, histories.starts, histories.new_row[order]), at[order]
    return histories, at


@njit(cache=True)
def _kernel_order(at: Numbers, starts: Numbers) -> Numbers:
    """Return the rows of each group by time, stable; empty if they are in order already."""
    order, sorted_already = np.arange(len(at)), True
    for group in range(len(starts) - 1):
        start, stop = starts[group], starts[group + 1]
        for row in range(start + 1, stop):
            if at[row] < at[row - 1]:
                order[start:stop] = start + np.argsort(at[start:stop], kind="mergesort")
                sorted_already = False
                break
    return order[:0] if sorted_already else order
