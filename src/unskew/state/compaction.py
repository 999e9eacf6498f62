"""How the log stays short: what a commit writes besides the batch's own rows.

Dead rows are dropped in three ways, each bounded by what the batch touched (amortised):

- a chunk without live rows goes;
- small chunks at the end are merged with the new one when there are several of a size, so that their number
  grows with the logarithm of the rows and each row is rewritten a few times at most;
- while dead rows outnumber live ones, the live rows of the oldest chunk are rewritten at the end, some in every batch.

A row that says a key is removed is needed as long as an older chunk may hold the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.state.chunks import one_batch
from unskew.state.groups import Groups
from unskew.state.index import ABSENT, KeyIndex, positions_of
from unskew.state.location import locate
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk
from unskew.state.parts import slot_order

Numbers = NDArray[np.int64]

_LEAST_CHUNK_BYTES, _CHUNKS_IN_MEMORY = 1 << 14, 16


@dataclass(frozen=True)
class Layout:
    """Sizes that rule the log.

    Parameters
    ----------
    rows_per_chunk, bytes_per_chunk
        No chunk is larger, in rows or in (uncompressed) bytes.
    fan_out
        How many chunks of a size are merged into one.
    spare_rows
        Dead rows that are tolerated beyond the number of live ones.
    cleaned_rows
        Rows of old chunks that a commit looks at in any case; beyond, four for every row it writes itself.
    """

    rows_per_chunk: int = 1 << 16
    bytes_per_chunk: int = 8 << 20
    fan_out: int = 4
    spare_rows: int = 1 << 14
    cleaned_rows: int = 1 << 12

    @classmethod
    def within(cls, memory_bytes: int | None) -> Layout:
        """Return a layout whose chunks are small parts of that much memory, where it is limited."""
        if memory_bytes is None:
            return cls()
        return cls(bytes_per_chunk=min(cls.bytes_per_chunk, max(_LEAST_CHUNK_BYTES, memory_bytes // _CHUNKS_IN_MEMORY)))

    def most_rows(self, mean_bytes: float) -> int:
        """Return how many rows of a mean size a chunk may have."""
        return max(1, min(self.rows_per_chunk, int(self.bytes_per_chunk / max(1.0, mean_bytes))))


@dataclass
class Compaction:
    """One commit's work on the log: collects live rows from segments and chunks, then lays them out anew."""

    log: ChunkLog
    index: KeyIndex
    layout: Layout
    cleaned: int

    def __post_init__(self) -> None:
        self._rows: list[pa.RecordBatch] = []
        self._positions: list[Numbers] = []
        self._removed: list[pa.RecordBatch] = list(self.log.removed)
        mean_bytes = float(self.index.slot_bytes.sum()) / max(1, self.index.rows)
        self._most_rows = self.layout.most_rows(mean_bytes)

    def run(self, nonce: str) -> list[tuple[Chunk, pa.RecordBatch]]:
        """Bring the log up to date; returns the new chunks, which stand at the end of ``log.chunks``."""
        log = self.log
        touched = sum(segment.live for segment in log.segments) + sum(rows.num_rows for rows in log.removed)
        self._drop_exhausted()
        for segment in log.segments:
            self._collect(segment, 0, segment.rows)
        window = tail_to_merge(log.chunks, touched, self.layout.fan_out, self._most_rows)
        for chunk in window:
            self._collect(chunk, 0, chunk.rows)
            self._collect_removed(chunk)
        del log.chunks[len(log.chunks) - len(window) :]
        self._clean(4 * touched + self.layout.cleaned_rows)
        self._drop_exhausted()
        if not log.chunks:
            self.cleaned = 0
        new = self._lay_out(nonce)
        log.settle(new)
        return new

    def _drop_exhausted(self) -> None:
        """Drop chunks that say nothing: dead rows always, removed keys if nothing older can hold them."""
        chunks = self.log.chunks
        while chunks and chunks[0].live == 0:
            del chunks[0]
            self.cleaned = 0
        chunks[:] = [chunk for chunk in chunks if chunk.weight]

    def _clean(self, budget: int) -> None:
        chunks = self.log.chunks
        while chunks and budget > 0 and self._dead_rows() > self.index.rows + self.layout.spare_rows:
            oldest = chunks[0]
            stop = min(oldest.rows, self.cleaned + budget) if self.log.is_local(oldest) else oldest.rows
            self._collect(oldest, self.cleaned, stop)
            budget -= stop - self.cleaned
            self.cleaned = stop
            if stop == oldest.rows:
                del chunks[0]
                self.cleaned = 0

    def _dead_rows(self) -> int:
        held = sum(chunk.rows for chunk in self.log.chunks) - self.cleaned
        collected = sum(int(rows.num_rows) for rows in self._rows + self._removed)
        return held + collected - self.index.rows

    def _collect(self, chunk: Chunk, start: int, stop: int) -> None:
        """Take the live rows among some of a chunk's."""
        if chunk.live == 0:
            return
        rows = self.log.batch(chunk).slice(start, stop - start)
        positions = positions_of(chunk.sequence, chunk.rows)[start:stop]
        live = np.ones(len(positions), np.bool_)
        if chunk.live < chunk.rows:
            live = self.index.is_live(hashes_of(rows), positions)
        if not live.all():
            rows, positions = rows.take(pa.array(np.flatnonzero(live))), positions[live]
        chunk.live -= rows.num_rows
        self._rows.append(rows)
        self._positions.append(positions)

    def _collect_removed(self, chunk: Chunk) -> None:
        if chunk.removed:
            self._removed.append(self.log.batch(chunk).slice(chunk.rows - chunk.removed))

    def _removed_rows(self) -> pa.RecordBatch:
        """Return the removed keys that must be remembered."""
        columns = self.log.columns
        if not self._removed or not self.log.chunks:
            return pa.RecordBatch.from_pylist([], columns.rows)
        rows = one_batch(self._removed, columns.rows)
        hashes = hashes_of(rows)
        needed = self.index.find(hashes) == ABSENT
        if not needed.all():
            # a key that is held again has its row in the chunk that is being written
            doubtful = np.flatnonzero(~needed)
            keys = columns.keys_in(rows.take(pa.array(doubtful)))
            again = locate(Groups(hashes[doubtful], keys, np.empty(0, np.int64)), self.index, self.log)
            needed[doubtful] = again.positions == 0
            rows = rows.take(pa.array(np.flatnonzero(needed)))
        return rows

    def _lay_out(self, nonce: str) -> list[tuple[Chunk, pa.RecordBatch]]:
        """Make chunks of what was collected, by slot, so that a chunk's parts are of few slots each."""
        removed = self._removed_rows()
        everything = one_batch([*self._rows, removed], self.log.columns.rows)
        live_rows = everything.num_rows - removed.num_rows
        old = np.concatenate([np.empty(0, np.int64), *self._positions])
        order = slot_order(everything, removed.num_rows, len(self.index.slot_rows))
        if order is not None:
            everything, old = everything.take(pa.array(order)), old[order[:live_rows]]
        new = []
        for start in range(0, everything.num_rows, self._most_rows):
            rows = everything.slice(start, self._most_rows)
            sequence, live = self.log.take_sequence(), max(0, min(live_rows - start, rows.num_rows))
            self.index.move(hashes_of(rows)[:live], old[start : start + live], positions_of(sequence, live))
            chunk = Chunk(sequence, nonce, rows.num_rows, rows.num_rows - live, live, self.log.earliest(rows))
            new.append((chunk, rows))
        return new


def tail_to_merge(chunks: Sequence[Chunk], rows: int, fan_out: int, most_rows: int) -> list[Chunk]:
    """Return the chunks at the end of the log that a new chunk of `rows` rows is to be merged with.

    Whenever `fan_out` chunks, the new one among them, are of the new one's order of magnitude or below, they become
    one; this may go on with the next order of magnitude. At most ``fan_out - 1`` chunks of each order remain.

    Examples
    --------
    >>> small = [Chunk(i, "", 10, 0, 10) for i in range(3)]
    >>> big = [Chunk(9, "", 600, 0, 600)]
    >>> len(tail_to_merge(big + small, 10, 4, 1000)), len(tail_to_merge(big + small[1:], 10, 4, 1000))
    (3, 0)
    """
    weight, first = rows, len(chunks)
    while True:
        order = _order(weight, fan_out)
        start, merged = first, weight
        for chunk in reversed(chunks[:first]):
            if _order(chunk.weight, fan_out) > order or merged + chunk.weight > most_rows:
                break
            start, merged = start - 1, merged + chunk.weight
        if first - start < fan_out - 1:
            return list(chunks[first:])
        weight, first = merged, start


def _order(rows: int, fan_out: int) -> int:
    order = 0
    while rows >= fan_out:
        rows //= fan_out
        order += 1
    return order
