"""Rows in pieces of limited size: an Arrow array holds at most 2 GiB of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.state.sizes import row_bytes

BYTES_AT_ONCE = 16 << 20
TAKEN_IN_ONE_PIECE = 1 << 30  # bytes of a table up to which Arrow may join its chunks


def cut(batches: Iterable[pa.RecordBatch], rows_at_once: int, bytes_at_once: int = BYTES_AT_ONCE) -> Iterator[pa.Table]:
    """Put batches together, in order, into tables of at most so many rows and bytes, or of a single row.

    The cuts depend on the rows alone, not on the batches they come in.

    >>> rows = pa.record_batch({"name": ["ada", "grace", "mary", "joan"]})
    >>> [piece["name"].to_pylist() for piece in cut([rows, rows.slice(3)], rows_at_once=3, bytes_at_once=16)]
    [['ada', 'grace'], ['mary', 'joan'], ['joan']]
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        sizes, start = row_bytes(batch), 0
        before = np.concatenate(([0], np.cumsum(sizes)))
        while start < batch.num_rows:
            end = _end(before, start, rows_at_once - rows, bytes_at_once - size, at_least=0 if held else 1)
            if end > start:
                held.append(batch.slice(start, end - start))
                rows, size = rows + end - start, size + int(before[end] - before[start])
            start = end
            if start < batch.num_rows or rows == rows_at_once:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def cut_in_order(rows: pa.Table, order: NDArray[np.int64], rows_at_once: int, bytes_at_once: int) -> Iterator[pa.Table]:
    """Yield rows in an order, in tables like those of `cut`."""
    for start, end in pieces(sizes_in_order(rows, order), rows_at_once, bytes_at_once):
        yield taken(rows, order[start:end])


def pieces(
    sizes: NDArray[np.int64], rows_at_once: int, bytes_at_once: int = BYTES_AT_ONCE
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each piece, within both limits or of a single row.

    >>> list(pieces(np.array([3, 3, 9, 1, 1, 1]), rows_at_once=2, bytes_at_once=6))
    [(0, 2), (2, 3), (3, 5), (5, 6)]
    """
    before, start = np.concatenate(([0], np.cumsum(sizes))), 0
    while start < len(sizes):
        end = _end(before, start, rows_at_once, bytes_at_once, at_least=1)
        yield start, end
        start = end


def _end(before: NDArray[np.int64], start: int, rows: int, size: int, at_least: int) -> int:
    end = int(np.searchsorted(before, before[start] + size, side="right")) - 1
    return max(min(end, start + rows), start + at_least)


def sizes_in_order(rows: pa.Table, order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the size of each row, in the given order."""
    sizes = [row_bytes(batch) for batch in rows.to_batches()]
    return np.concatenate([np.zeros(0, np.int64), *sizes])[order]


def taken(rows: pa.Table, order: NDArray[np.int64]) -> pa.Table:
    """Return rows in another order, as `pyarrow.Table.take` does.

    `take` fails where the chunks of a column do not fit into one array. There, each chunk is taken from on its own.
    """
    if rows.nbytes <= TAKEN_IN_ONE_PIECE:
        return rows.take(pa.array(order))
    batches = rows.to_batches()
    starts = np.concatenate(([0], np.cumsum([batch.num_rows for batch in batches])))
    batch_of = np.searchsorted(starts, order, side="right") - 1
    by_batch = np.argsort(batch_of, kind="stable")
    ends = np.cumsum(np.bincount(batch_of, minlength=len(batches)))
    places = np.split(order[by_batch], ends[:-1])
    parts = [batch.take(pa.array(at - start)) for batch, at, start in zip(batches, places, starts, strict=False)]
    back = np.empty(len(order), np.int64)
    back[by_batch] = np.arange(len(order))
    return pa.Table.from_batches(parts, schema=rows.schema).combine_chunks().take(pa.array(back))
