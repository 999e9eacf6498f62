"""The state of some slots, read from the store without the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from unskew.routing.lookup import slot_of
from unskew.state.chunks import Columns, from_store, one_batch
from unskew.state.file_entry import Entry
from unskew.state.groups import Mask
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk
from unskew.state.piece_store import PieceStore
from unskew.state.recovery import manifest_in, rebuild_index
from unskew.state.view import StateView


def view_of_slots(store: PieceStore, key_schema: pa.Schema, value_schema: pa.Schema, chosen: Mask) -> StateView:
    """Return the state of the chosen slots (one boolean per slot) as the store has it.

    A key stays in one slot, so the log without the rows of other slots is the log of a smaller state. Reads only the
    parts of chunks that may hold such rows: about 1/32 of the state for one slot, more if chunks are small.
    """
    columns = Columns.of(key_schema, value_schema)
    whole, entry, chunks = manifest_in(store, columns), Entry(), list[Chunk]()
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
    return StateView(log, rebuild_index(log, manifest, len(chosen)))
