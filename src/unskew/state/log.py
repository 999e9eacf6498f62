"""The log of chunks that a state consists of, and the rows of the current batch that will become its next one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from unskew.state.chunks import HASH, VALUE_PREFIX, Columns, from_store, plain_arrays
from unskew.state.file_entry import Entry
from unskew.state.groups import Numbers, same_keys
from unskew.state.index import ABSENT, ROW_BITS, KeyIndex
from unskew.state.manifest import Chunk, Manifest
from unskew.state.store import ChunkStore

_ROW = (1 << ROW_BITS) - 1
_CHUNKS_HELD = 4


class ChunkLog:
    """Rows by position: in chunks, which are local or in the store, and in segments, which are not committed yet."""

    def __init__(
        self, store: ChunkStore, entry: Entry, columns: Columns, manifest: Manifest, deadline: str | None
    ) -> None:
        self.store, self.entry, self.columns, self.deadline = store, entry, columns, deadline
        self.chunks = [replace(chunk) for chunk in manifest.chunks]  # what is committed, in order
        self.segments: list[Chunk] = []  # what was put since, in order; numbered like chunks
        self.removed: list[pa.RecordBatch] = []  # the keys removed since, as rows whose values are null
        self.next_sequence = manifest.next_sequence
        self._numbered = {chunk.sequence: chunk for chunk in self.chunks}
        self._uncommitted: dict[int, pa.RecordBatch] = {}
        self._fetched: dict[int, pa.RecordBatch] = {}

    def __iter__(self) -> Iterator[Chunk]:
        yield from self.chunks
        yield from self.segments

    def append(self, rows: pa.RecordBatch) -> int:
        segment = Chunk(self.take_sequence(), "", rows.num_rows, 0, rows.num_rows, self.earliest(rows))
        self.segments.append(segment)
        self._numbered[segment.sequence] = segment
        self._uncommitted[segment.sequence] = rows
        return segment.sequence

    def take_sequence(self) -> int:
        self.next_sequence += 1
        return self.next_sequence - 1

    def settle(self, new: list[tuple[Chunk, pa.RecordBatch]]) -> None:
        """Replace everything that was put and removed since the last commit by new chunks."""
        self.segments.clear()
        self.removed.clear()
        self.chunks.extend(chunk for chunk, _ in new)
        self._numbered = {chunk.sequence: chunk for chunk in self.chunks}
        self._uncommitted = {chunk.sequence: rows for chunk, rows in new}

    def bury(self, hashes: Numbers, positions: Numbers, keys: pa.Table) -> None:
        """Note that the keys whose rows lie at these positions are removed."""
        self.outdate(positions)
        self.removed.append(self.columns.make_rows(hashes, keys, self.columns.empty_values(len(hashes))))

    def outdate(self, positions: Numbers) -> None:
        """Count the rows at these positions as dead."""
        for sequence, rows in zip(*np.unique(positions >> ROW_BITS, return_counts=True), strict=True):
            self._numbered[int(sequence)].live -= int(rows)

    def earliest(self, rows: pa.RecordBatch) -> int | None:
        if self.deadline is None:
            return None
        least: int | None = pc.min(rows.column(VALUE_PREFIX + self.deadline)).as_py()
        return least

    def batch(self, chunk: Chunk) -> pa.RecordBatch:
        """Return the rows of a chunk or segment; a chunk that is not local is read from the store."""
        rows = self._fetched.get(chunk.sequence)
        rows = self._local(chunk) if rows is None else rows
        if rows is None:
            rows = from_store(self.store.read_chunk(chunk.sequence), chunk.sequence, self.columns)
            self.entry.write_chunk(chunk.name, rows)
            self._fetched[chunk.sequence] = rows  # the local copy may have no room for it
            if len(self._fetched) > _CHUNKS_HELD:
                del self._fetched[next(iter(self._fetched))]
        return rows

    def is_local(self, chunk: Chunk) -> bool:
        """Tell whether reading a chunk is cheap."""
        return self._local(chunk) is not None

    def _local(self, chunk: Chunk) -> pa.RecordBatch | None:
        rows = self._uncommitted.get(chunk.sequence)
        return self.entry.read_chunk(chunk.name) if rows is None else rows

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

    def locate(self, hashes: Numbers, keys: pa.Table, index: KeyIndex) -> tuple[Numbers, pa.Table | None]:
        """Return the position of each key, 0 if it is not held, and the rows there if no key needed a second look.

        Costs one probe and one comparison per key, and another round for keys that share their hash with another key.
        """
        columns = self.columns
        keys = pa.Table.from_arrays(plain_arrays(keys, columns.keys), schema=columns.keys)
        buckets = index.find(hashes)
        positions = index.positions(buckets)
        rows = self.gather(positions)
        pending = np.flatnonzero((buckets != ABSENT) & ~same_keys(columns.keys_in(rows), keys))
        if not pending.size:
            return positions, rows
        while pending.size:
            buckets[pending] = index.find(hashes[pending], after=buckets[pending])
            pending = pending[buckets[pending] != ABSENT]
            found = self.gather(index.positions(buckets[pending]))
            pending = pending[~same_keys(columns.keys_in(found), keys.take(pa.array(pending)))]
        return index.positions(buckets), None


def hashes_of(rows: pa.RecordBatch | pa.Table) -> Numbers:
    """Return the hashes of rows as a read-only view."""
    return np.asarray(rows.column(HASH).to_numpy())
