"""From a store and a working copy that may be behind to an index that is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import CheckpointError
from unskew.state.chunks import Columns
from unskew.state.entry import Entry
from unskew.state.groups import Groups
from unskew.state.index import KeyIndex, positions_of
from unskew.state.location import locate
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk, Manifest
from unskew.state.sizes import row_bytes
from unskew.state.store import ChunkStore

Numbers = NDArray[np.int64]

Found = Literal["new", "copy", "behind", "store"]
"""What there was to begin with: no state at all, a local copy, one that had to catch up, or the store alone."""


def manifest_in(store: ChunkStore, columns: Columns) -> Manifest:
    """Return the manifest in a store, an empty one before the first commit, or refuse it if its columns are others."""
    data = store.read_manifest()
    manifest = Manifest(columns.text) if data is None else Manifest.from_bytes(data)
    if not columns.are(manifest.columns):
        raise CheckpointError(
            f"the state in this checkpoint has other columns ({manifest.columns})",
            got=columns.text,
            hint="start from a new checkpoint, or with the key and operator that wrote this one",
        )
    return replace(manifest, columns=columns.text)


def recover_index(log: ChunkLog, entry: Entry, manifest: Manifest, slots: int) -> tuple[KeyIndex, Found]:
    """Return the index of the state that `manifest` describes, and what it was made from.

    A copy of that very commit is taken as it is. A copy of an earlier one reads the chunks that came since. Otherwise,
    a copy that went another way or none, all chunks are read: local ones are used where they are those of the store,
    in the types that the state has now.
    """
    known = entry.manifest
    entry.manifest = None
    if known is None or known.columns != manifest.columns:
        entry.keep_chunks(())
        return rebuild_index(log, entry, manifest, slots), "store" if manifest.chunks else "new"
    entry.keep_chunks({chunk.name for chunk in manifest.chunks})
    index = _copied(entry, slots)
    if index is not None:
        if known.nonce == manifest.nonce:
            return index, "copy"
        if known.nonce in manifest.history and not manifest.shared:
            return _caught_up(index, log, known, manifest), "behind"
    return rebuild_index(log, entry, manifest, slots), "store"


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


def rebuild_index(log: ChunkLog, entry: Entry, manifest: Manifest, slots: int) -> KeyIndex:
    """Return the index of a log by reading all of it."""
    index = KeyIndex.empty(entry.allocate, slots, expected_rows=manifest.rows)
    shared = np.array(manifest.shared, np.int64)
    for chunk in log.chunks:
        _apply(index, log, chunk, shared)
    return index


def _apply(index: KeyIndex, log: ChunkLog, chunk: Chunk, shared: Numbers) -> None:
    """Read one chunk: where a hash stands for one key the hash decides, else the key itself."""
    rows = log.batch(chunk)
    live = chunk.rows - chunk.removed
    hashes, positions, sizes = hashes_of(rows), positions_of(chunk.sequence, chunk.rows), row_bytes(rows)
    for removed, part in ((True, slice(live, chunk.rows)), (False, slice(0, live))):
        doubtful = np.isin(hashes[part], shared)
        clear = np.flatnonzero(~doubtful) + part.start
        index.apply(hashes[clear], positions[clear], sizes[clear], removed=removed)
        if not doubtful.any():
            continue
        chosen = np.flatnonzero(doubtful) + part.start
        keys = log.columns.keys_in(rows.take(pa.array(chosen)))
        held = locate(Groups(hashes[chosen], keys, np.empty(0, np.int64)), index, log).positions
        known, new = chosen[held > 0], chosen[held == 0]
        if removed:
            index.delete(hashes[known], held[held > 0])
        else:
            index.replace(hashes[known], held[held > 0], positions[known], sizes[known])
            index.insert(hashes[new], positions[new], sizes[new])
