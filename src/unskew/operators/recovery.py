"""From a store and a working copy that may be behind to an index that is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unskew.operators.chunks import REMOVED, flags_column
from unskew.operators.entry import Entry
from unskew.operators.groups import Groups
from unskew.operators.index import KeyIndex, positions_of
from unskew.operators.location import locate
from unskew.operators.log import ChunkLog, hashes_of
from unskew.operators.manifest import Chunk, Manifest
from unskew.operators.sizes import row_bytes

Numbers = NDArray[np.int64]


def recover_index(log: ChunkLog, entry: Entry, manifest: Manifest, slots: int) -> KeyIndex:
    """Return the index of the state that `manifest` describes.

    A copy of that very commit is taken as it is. A copy of an earlier one reads the chunks that came since. Otherwise,
    a copy that went another way or none, all chunks are read: local ones are used where they are those of the store.
    """
    entry.keep_chunks({chunk.name for chunk in manifest.chunks})
    index = _copied(entry, slots)
    known = entry.manifest
    entry.manifest = None
    if index is not None and known is not None and known.columns == manifest.columns:
        if known.nonce == manifest.nonce:
            return index
        if known.nonce in manifest.history and not manifest.shared:
            return _caught_up(index, log, known, manifest)
    return _rebuilt(log, entry, manifest, slots)


def _copied(entry: Entry, slots: int) -> KeyIndex | None:
    buckets, counts = entry.load("index"), entry.load("slots")
    if buckets is None or counts is None or len(counts) != 2 * slots:
        return None
    return KeyIndex(entry.allocate, buckets, counts)


def _caught_up(index: KeyIndex, log: ChunkLog, known: Manifest, manifest: Manifest) -> KeyIndex:
    for chunk in log.chunks:
        if chunk.sequence >= known.next_sequence:
            _apply(index, log, chunk, np.empty(0, np.int64))
    if index.rows != manifest.rows:
        # keys whose removal has itself been cleaned away
        index.delete(*index.outside(np.array([chunk.sequence for chunk in log.chunks], np.int64)))
    return index


def _rebuilt(log: ChunkLog, entry: Entry, manifest: Manifest, slots: int) -> KeyIndex:
    index = KeyIndex.empty(entry.allocate, slots, expected_rows=manifest.rows)
    shared = np.array(manifest.shared, np.int64)
    for chunk in log.chunks:
        _apply(index, log, chunk, shared)
    return index


def _apply(index: KeyIndex, log: ChunkLog, chunk: Chunk, shared: Numbers) -> None:
    """Read one chunk: where a hash stands for one key the hash decides, else the key itself."""
    rows = log.batch(chunk)
    hashes, removed = hashes_of(rows), flags_column(rows, REMOVED)
    positions, sizes = positions_of(chunk.sequence, rows.num_rows), row_bytes(rows.select(log.columns.rows.names))
    if not shared.size:
        index.apply(hashes, removed, positions, sizes)
        return
    doubtful = np.isin(hashes, shared)
    clear = ~doubtful
    index.apply(hashes[clear], removed[clear], positions[clear], sizes[clear])
    for wanted in (True, False):  # removed keys stand first in a chunk
        chosen = np.flatnonzero(doubtful & (removed == wanted))
        keys = log.columns.keys_in(rows.take(chosen))
        held = locate(Groups(hashes[chosen], keys, np.empty(0, np.int64)), index, log).positions
        known = held > 0
        if wanted:
            index.delete(hashes[chosen][known], held[known])
        else:
            index.replace(hashes[chosen][known], held[known], positions[chosen][known], sizes[chosen][known])
            index.insert(hashes[chosen][~known], positions[chosen][~known], sizes[chosen][~known])
