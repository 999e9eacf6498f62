"""From a store and a working copy that may be behind to an index that is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pyarrow as pa

from unskew.errors import CheckpointError
from unskew.state.chunks import Columns
from unskew.state.groups import Numbers
from unskew.state.index import KeyIndex, positions_of
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk, Manifest
from unskew.state.sizes import row_bytes
from unskew.state.store import ChunkStore

# what there was to begin with: no state at all, a local copy, one that had to catch up, or the store alone
Found = Literal["new", "copy", "behind", "store"]


def manifest_in(store: ChunkStore, columns: Columns) -> Manifest:
    """Return the manifest in a store, an empty one before the first commit; columns may have been added since."""
    data = store.read_manifest()
    manifest = Manifest(columns.text) if data is None else Manifest.from_bytes(data)
    if not columns.cover(manifest.columns):
        raise CheckpointError(
            f"the state in this checkpoint has other columns ({manifest.columns})",
            got=columns.text,
            hint="start from a new checkpoint, or with the key and operator that wrote this one",
        )
    return replace(manifest, columns=columns.text)


def recover_index(log: ChunkLog, manifest: Manifest, slots: int) -> tuple[KeyIndex, Found]:
    """Return the index of the state that `manifest` describes, and what it was made from.

    A copy of that very commit is used as it is. A copy of an earlier commit reads the chunks that came since. A copy
    that took another course, or none, reads all chunks: local ones where they are those of the store in today's types.
    """
    entry = log.entry
    known, entry.manifest = entry.manifest, None
    if known is None or known.columns != manifest.columns:
        entry.keep_chunks(())
        return rebuild_index(log, manifest, slots), "store" if manifest.chunks else "new"
    entry.keep_chunks({chunk.name for chunk in manifest.chunks})
    buckets, counts = entry.load("index"), entry.load("slots")
    if buckets is not None and counts is not None and len(counts) == 2 * slots:
        index = KeyIndex(entry.allocate, buckets, counts)
        if known.nonce == manifest.nonce:
            return index, "copy"
        if known.nonce in manifest.history and not manifest.shared:
            _catch_up(index, log, known, manifest)
            return index, "behind"
    return rebuild_index(log, manifest, slots), "store"


def _catch_up(index: KeyIndex, log: ChunkLog, known: Manifest, manifest: Manifest) -> None:
    for chunk in log.chunks:
        if chunk.sequence >= known.next_sequence:
            _replay(index, log, chunk, np.empty(0, np.int64))
    if index.rows != manifest.rows:
        # keys whose removal has itself been cleaned away
        index.delete(*index.outside(np.array([chunk.sequence for chunk in log.chunks], np.int64)))


def rebuild_index(log: ChunkLog, manifest: Manifest, slots: int) -> KeyIndex:
    """Return the index of a log by reading all of it."""
    index = KeyIndex.empty(log.entry.allocate, slots, expected_rows=manifest.rows)
    for chunk in log.chunks:
        _replay(index, log, chunk, np.array(manifest.shared, np.int64))
    return index


def _replay(index: KeyIndex, log: ChunkLog, chunk: Chunk, shared: Numbers) -> None:
    """Read one chunk. A hash stands for its key, except for the `shared` ones, for which the keys are compared."""
    rows = log.batch(chunk)
    live = chunk.rows - chunk.removed
    hashes, positions, sizes = hashes_of(rows), positions_of(chunk.sequence, chunk.rows), row_bytes(rows)
    doubtful = np.isin(hashes, shared)
    for removed, part in ((True, np.arange(live, chunk.rows)), (False, np.arange(live))):
        clear, chosen = part[~doubtful[part]], part[doubtful[part]]
        index.apply(hashes[clear], positions[clear], sizes[clear], removed=removed)
        if not chosen.size:
            continue
        held, _ = log.locate(hashes[chosen], log.columns.keys_in(rows.take(pa.array(chosen))), index)
        known, new = chosen[held > 0], chosen[held == 0]
        if removed:
            index.delete(hashes[known], held[held > 0])
        else:
            index.replace(hashes[known], held[held > 0], positions[known], sizes[known])
            index.insert(hashes[new], positions[new], sizes[new])
