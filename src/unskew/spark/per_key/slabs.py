"""The rows of a batch, key after key: late ones left out, and cut into slabs that are converted at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.runtime.cutting import sizes_in_order, taken
from unskew.state import Groups

ROWS_CONVERTED_AT_ONCE, BYTES_CONVERTED_AT_ONCE = 1 << 17, 256 << 20

_WARM: set[str] = set()  # functions that have been called in this process

Numbers = NDArray[np.int64]


def on_time(
    groups: Groups, rows: pa.Table, event_time: str | None, watermark_ms: int | None
) -> tuple[Numbers, Numbers, int]:
    """Return the rows that are not late, group after group, where groups start among them, and how many are late.

    Without a watermark no row is late.
    """
    if watermark_ms is None:
        return groups.order, groups.starts, 0
    late = is_late(rows.column(event_time), watermark_ms)
    if not late.any():
        return groups.order, groups.starts, 0
    counts = np.bincount(groups.group_of_row[~late], minlength=len(groups))
    return groups.order[~late[groups.order]], np.concatenate(([0], np.cumsum(counts))), int(late.sum())


def slabs(rows: pa.Table, order: Numbers, starts: Numbers) -> Iterator[tuple[Numbers, Numbers, pa.RecordBatch]]:
    """Cut groups into runs of limited size; yield the groups that have rows, where each starts, and the rows."""
    for groups, places, end in _cut(starts, _bytes_before(rows, order)):
        yield groups, places, taken(rows, order[starts[groups[0]] : end]).combine_chunks().to_batches()[0]


def without_warm_up(function: Any, seconds: NDArray[np.float64], rows: Numbers) -> NDArray[np.float64]:
    """Return what each call took; the first in this process, which pays for imports, as its rows suggest.

    Otherwise one key on every channel would look as heavy as all others together in the first batches.
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    called = np.flatnonzero(rows)
    if name in _WARM or len(called) < 2:
        return seconds
    _WARM.add(name)
    first, others = called[0], called[1:]
    usual = seconds[others].sum() / rows[others].sum()
    seconds[first] = min(seconds[first], usual * rows[first])
    return seconds


def _bytes_before(rows: pa.Table, order: Numbers) -> Numbers | None:
    """Return the bytes before each row in an order, and of all rows; None if they fit into one slab."""
    if rows.nbytes <= BYTES_CONVERTED_AT_ONCE:
        return None
    return np.concatenate(([0], np.cumsum(sizes_in_order(rows, order))))


def _cut(starts: Numbers, bytes_before: Numbers | None = None) -> Iterator[tuple[Numbers, Numbers, int]]:
    """Yield the groups of each slab that have rows, where each starts, and the slab's end."""
    counts = np.diff(starts)
    ends_slab = np.diff(starts[:-1] // ROWS_CONVERTED_AT_ONCE) != 0
    if bytes_before is not None:
        ends_slab |= np.diff(bytes_before[starts[:-1]] // BYTES_CONVERTED_AT_ONCE) != 0
    for groups in np.split(np.arange(len(counts)), np.flatnonzero(ends_slab) + 1):
        filled = groups[counts[groups] > 0]
        if len(filled):
            end = int(starts[groups[-1] + 1])
            yield filled, np.append(starts[filled], end) - starts[filled[0]], end


def is_late(column: pa.ChunkedArray, watermark_ms: int) -> NDArray[np.bool_]:
    """Tell which rows lie at or before a watermark; a window counts by its end, null is never late."""
    if pa.types.is_struct(column.type):
        column = pc.struct_field(column, "end")
    microseconds = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    late = pc.fill_null(pc.less_equal(microseconds, watermark_ms * 1000), False)
    return np.asarray(late.to_numpy(zero_copy_only=False))
