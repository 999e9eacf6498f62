"""The log of chunks that a state consists of, and the rows of the current batch that will become its next one."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.state.chunks import HASH, VALUE_PREFIX, Columns, from_store
from unskew.state.entry import Entry
from unskew.state.index import ROW_BITS
from unskew.state.manifest import Chunk, Manifest
from unskew.state.store import ChunkStore

Numbers = NDArray[np.int64]

_ROW = (1 << ROW_BITS) - 1
_CHUNKS_HELD = 4


class ChunkLog:
    """Rows by position: in chunks (local, or in the store) and in segments that are not committed yet.

    Attributes
    ----------
    chunks
        What is committed, in order.
    segments
        What has been put since, in order; numbered like chunks.
    removed
        Keys removed since, as rows whose values are null.
    next_sequence
        The number of the next segment or chunk.
    """

    def __init__(
        self, store: ChunkStore, entry: Entry, columns: Columns, manifest: Manifest, deadline: str | None
    ) -> None:
        self.store, self.entry, self.columns, self.deadline = store, entry, columns, deadline
        self.chunks = [replace(chunk) for chunk in manifest.chunks]
        self.segments: list[Chunk] = []
        self.removed: list[pa.RecordBatch] = []
        self.next_sequence = manifest.next_sequence
        self._numbered = {chunk.sequence: chunk for chunk in self.chunks}
        self._uncommitted: dict[int, pa.RecordBatch] = {}
        self._fetched: OrderedDict[int, pa.RecordBatch] = OrderedDict()

    def __iter__(self) -> Iterator[Chunk]:
        yield from self.chunks
        yield from self.segments

    def append(self, rows: pa.RecordBatch) -> int:
        """Add a segment of live rows and return its number."""
        sequence = self.take_sequence()
        segment = Chunk(sequence, "", rows.num_rows, 0, rows.num_rows, self.earliest(rows))
        self.segments.append(segment)
        self._numbered[sequence] = segment
        self._uncommitted[sequence] = rows
        return sequence

    def take_sequence(self) -> int:
        """Return a number that no segment or chunk has."""
        self.next_sequence += 1
        return self.next_sequence - 1

    def settle(self, new: list[tuple[Chunk, pa.RecordBatch]]) -> None:
        """Let new chunks take the place of all that was put and removed since the last commit."""
        self.segments.clear()
        self.removed.clear()
        self.chunks.extend(chunk for chunk, _ in new)
        self._numbered = {chunk.sequence: chunk for chunk in self.chunks}
        self._uncommitted = {chunk.sequence: rows for chunk, rows in new}

    def bury(self, hashes: Numbers, keys: pa.Table) -> None:
        """Note that keys are removed."""
        self.removed.append(self.columns.make_rows(hashes, keys, self.columns.empty_values(len(hashes))))

    def outdate(self, positions: Numbers) -> None:
        """Count the rows at these positions as dead."""
        for sequence, rows in zip(*np.unique(positions >> ROW_BITS, return_counts=True), strict=True):
            self._numbered[int(sequence)].live -= int(rows)

    def earliest(self, rows: pa.RecordBatch) -> int | None:
        """Return the least deadline of some rows."""
        if self.deadline is None:
            return None
        least: int | None = pc.min(rows.column(VALUE_PREFIX + self.deadline)).as_py()
        return least

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        """Return the rows of a chunk or segment; a chunk that is not local is read from the store."""
        sequence = chunk.sequence
        if sequence in self._uncommitted:
            return self._uncommitted[sequence]
        rows = self.entry.read_chunk(chunk.name)
        if rows is None:
            rows = self._fetch(chunk)
        return rows

    def is_local(self, chunk: Chunk) -> bool:
        """Tell whether reading a chunk is cheap."""
        return chunk.sequence in self._uncommitted or self.entry.read_chunk(chunk.name) is not None

    def gather(self, positions: Numbers) -> pa.Table:
        """Return the rows at these positions in the given order, nulls for position 0."""
        present = np.flatnonzero(positions)
        order = present[np.argsort(positions[present], kind="stable")]
        ordered = positions[order]
        sequences, within = ordered >> ROW_BITS, ordered & _ROW
        bounds = [0, *(np.flatnonzero(np.diff(sequences)) + 1).tolist(), len(order)]
        parts = []
        for start, stop in pairwise(bounds if len(order) else []):
            chunk = self.batch(self._numbered[int(sequences[start])])
            parts.append(chunk.take(pa.array(within[start:stop])))
        rows = pa.Table.from_batches(parts, self.columns.rows)
        if len(order) == len(positions) and (np.diff(order) == 1).all():
            return rows
        place = np.zeros(len(positions), np.int64)
        place[order] = np.arange(len(order))
        return rows.combine_chunks().take(pa.array(place, mask=positions == 0))

    def _fetch(self, chunk: Chunk) -> pa.RecordBatch:
        """Read a chunk from the store; the local copy keeps it if there is room, we hold the last few anyway."""
        rows = self._fetched.get(chunk.sequence)
        if rows is None:
            rows = from_store(self.store.read_chunk(chunk.sequence), chunk.sequence, self.columns)
            self.entry.write_chunk(chunk.name, rows)
            self._fetched[chunk.sequence] = rows
            if len(self._fetched) > _CHUNKS_HELD:
                self._fetched.popitem(last=False)
        return rows


def hashes_of(rows: pa.RecordBatch | pa.Table) -> Numbers:
    """Return the hashes of rows as a read-only view."""
    column = rows.column(HASH)
    return np.asarray(column.to_numpy())
