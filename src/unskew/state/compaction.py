"""How the log stays short: what a commit writes besides the batch's own rows.

Dead rows are dropped in three ways, each bounded by what the batch touched (amortised):

- a chunk without live rows goes;
- several small chunks of a size at the end are merged with the new one, so that the number of chunks grows with the
  logarithm of the rows and each row is rewritten a few times at most;
- while dead rows outnumber live ones, each commit rewrites some of the oldest chunk's live rows at the end.

A row that says a key is removed is needed as long as an older chunk may hold the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from unskew.state.chunks import one_batch
from unskew.state.groups import Numbers
from unskew.state.index import ABSENT, KeyIndex, positions_of
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk
from unskew.state.parts import slot_order

_LEAST_CHUNK_BYTES, _CHUNKS_IN_MEMORY = 1 << 14, 16


@dataclass(frozen=True)
class Layout:
    """Sizes that govern the log."""

    rows_per_chunk: int = 1 << 16
    bytes_per_chunk: int = 8 << 20  # uncompressed
    fan_out: int = 4  # how many chunks of a size are merged into one
    spare_rows: int = 1 << 14  # dead rows that are tolerated beyond the number of live ones
    cleaned_rows: int = 1 << 12  # rows of old chunks that a commit may always look at, besides four per row it writes

    @classmethod
    def within(cls, memory_bytes: int | None) -> Layout:
        """Return a layout whose chunks are small parts of that much memory, if it is limited."""
        if memory_bytes is None:
            return cls()
        return cls(bytes_per_chunk=min(cls.bytes_per_chunk, max(_LEAST_CHUNK_BYTES, memory_bytes // _CHUNKS_IN_MEMORY)))

    def most_rows(self, mean_bytes: float) -> int:
        return max(1, min(self.rows_per_chunk, int(self.bytes_per_chunk / max(1.0, mean_bytes))))


class Compaction:
    """One commit's work on the log: collects live rows from segments and chunks, then lays them out anew."""

    def __init__(self, log: ChunkLog, index: KeyIndex, layout: Layout, cleaned: int) -> None:
        self._log, self._index, self._layout, self.cleaned = log, index, layout, cleaned
        self._rows: list[pa.RecordBatch] = []
        self._positions = [np.empty(0, np.int64)]
        self._removed = list(log.removed)
        self._most_rows = layout.most_rows(float(index.slot_bytes.sum()) / max(1, index.rows))

    def run(self, nonce: str) -> list[tuple[Chunk, pa.RecordBatch]]:
        """Bring the log up to date; returns the new chunks, which are then the last ones of ``log.chunks``."""
        log, layout = self._log, self._layout
        touched = sum(segment.live for segment in log.segments) + sum(rows.num_rows for rows in log.removed)
        self._drop_exhausted()
        merged = tail_to_merge(log.chunks, touched, layout.fan_out, self._most_rows)
        for chunk in [*log.segments, *merged]:
            self._collect(chunk, 0, chunk.rows)
            if chunk.removed:
                self._removed.append(log.batch(chunk).slice(chunk.rows - chunk.removed))
        del log.chunks[len(log.chunks) - len(merged) :]
        self._clean(4 * touched + layout.cleaned_rows)
        self._drop_exhausted()
        if not log.chunks:
            self.cleaned = 0
        new = self._lay_out(nonce)
        log.settle(new)
        return new

    def _drop_exhausted(self) -> None:
        """Drop chunks that say nothing: those of dead rows, and removed keys if nothing older can hold them."""
        chunks = self._log.chunks
        while chunks and chunks[0].live == 0:
            del chunks[0]
            self.cleaned = 0
        chunks[:] = [chunk for chunk in chunks if chunk.weight]

    def _clean(self, budget: int) -> None:
        chunks = self._log.chunks
        while chunks and budget > 0 and self._dead_rows() > self._index.rows + self._layout.spare_rows:
            oldest = chunks[0]
            stop = min(oldest.rows, self.cleaned + budget) if self._log.is_local(oldest) else oldest.rows
            self._collect(oldest, self.cleaned, stop)
            budget -= stop - self.cleaned
            self.cleaned = stop
            if stop == oldest.rows:
                del chunks[0]
                self.cleaned = 0

    def _dead_rows(self) -> int:
        held = sum(chunk.rows for chunk in self._log.chunks) - self.cleaned
        collected = sum(int(rows.num_rows) for rows in self._rows + self._removed)
        return held + collected - self._index.rows

    def _collect(self, chunk: Chunk, start: int, stop: int) -> None:
        if chunk.live == 0:
            return
        rows = self._log.batch(chunk).slice(start, stop - start)
        positions = positions_of(chunk.sequence, chunk.rows)[start:stop]
        if chunk.live < chunk.rows:
            live = self._index.is_live(hashes_of(rows), positions)
            if not live.all():
                rows, positions = rows.take(pa.array(np.flatnonzero(live))), positions[live]
        chunk.live -= rows.num_rows
        self._rows.append(rows)
        self._positions.append(positions)

    def _removed_rows(self) -> pa.RecordBatch:
        """Return the removed keys that must be remembered."""
        columns = self._log.columns
        rows = one_batch(self._removed if self._log.chunks else [], columns.rows)
        hashes = hashes_of(rows)
        held = self._index.find(hashes) != ABSENT
        if held.any():
            # a key that is held again has its row in the chunk that is being written
            doubtful = np.flatnonzero(held)
            keys = columns.keys_in(rows.take(pa.array(doubtful)))
            held[doubtful] = self._log.locate(hashes[doubtful], keys, self._index)[0] != 0
            rows = rows.take(pa.array(np.flatnonzero(~held)))
        return rows

    def _lay_out(self, nonce: str) -> list[tuple[Chunk, pa.RecordBatch]]:
        """Make chunks of what was collected, by slot, so that each part of a chunk covers few slots."""
        removed = self._removed_rows()
        everything = one_batch([*self._rows, removed], self._log.columns.rows)
        live_rows = everything.num_rows - removed.num_rows
        old: Numbers = np.concatenate(self._positions)
        order = slot_order(everything, removed.num_rows, len(self._index.slot_rows))
        if order is not None:
            everything, old = everything.take(pa.array(order)), old[order[:live_rows]]
        new = []
        for start in range(0, everything.num_rows, self._most_rows):
            rows = everything.slice(start, self._most_rows)
            sequence, live = self._log.take_sequence(), max(0, min(live_rows - start, rows.num_rows))
            self._index.move(hashes_of(rows)[:live], old[start : start + live], positions_of(sequence, live))
            chunk = Chunk(sequence, nonce, rows.num_rows, rows.num_rows - live, live, self._log.earliest(rows))
            new.append((chunk, rows))
        return new


def tail_to_merge(chunks: Sequence[Chunk], rows: int, fan_out: int, most_rows: int) -> list[Chunk]:
    """Return the chunks at the end of the log to merge with a new chunk of `rows` rows.

    Whenever `fan_out` chunks, the new one among them, are of the new one's order of magnitude or below, they become
    one; this may go on with the next order of magnitude. At most ``fan_out - 1`` chunks of each order remain.
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
