"""The state of some slots, read from the store without the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.routing.lookup import slot_of
from unskew.state.chunks import Columns, from_store, one_batch
from unskew.state.entry import MemoryEntry
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk
from unskew.state.recovery import manifest_in, rebuild_index
from unskew.state.store import ChunkStore
from unskew.state.view import StateView

Mask = NDArray[np.bool_]


def view_of_slots(store: ChunkStore, key_schema: pa.Schema, value_schema: pa.Schema, chosen: Mask) -> StateView:
    """Return the state of the chosen slots, a boolean for each slot, as the store has it.

    A key's history lies in one slot. So the log without the rows of other slots is the log of a smaller state, and is
    read as any other is. Costs what the parts of chunks that may hold such rows cost: about 1/32 of the state for one
    slot, more where chunks are small.
    """
    columns = Columns.of(key_schema, value_schema)
    whole, entry, chunks = manifest_in(store, columns), MemoryEntry(), list[Chunk]()
    for chunk in whole.chunks:
        parts, removed = [], 0
        for first_row, data in store.read_parts(chunk.sequence, chosen):
            rows = from_store(data, chunk.sequence, columns)
            inside = np.flatnonzero(chosen[slot_of(hashes_of(rows), len(chosen))])
            removed += int(np.count_nonzero(first_row + inside >= chunk.rows - chunk.removed))
            parts.append(rows.take(pa.array(inside)))
        rows = one_batch(parts, columns.rows)
        entry.write_chunk(chunk.name, rows)
        live = rows.num_rows - removed
        chunks.append(replace(chunk, rows=rows.num_rows, removed=removed, live=live))
    manifest = replace(whole, chunks=tuple(chunks), rows=sum(chunk.live for chunk in chunks))
    log = ChunkLog(store, entry, columns, manifest, deadline=None)
    return StateView(log, rebuild_index(log, entry, manifest, len(chosen)), len(chosen))
