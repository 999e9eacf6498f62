"""Parts of a chunk: ranges of a stored chunk that can be read without the rest, each with the slots it covers."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.routing.lookup import slot_of
from unskew.state.chunks import HASH, to_store
from unskew.state.groups import Mask, Numbers

PART_BYTES = 1 << 16  # least size before compression; a chunk of small rows has 1 to 2 MB, so larger parts save little
MOST_PARTS = 32  # of a chunk, roughly; each adds some ten bytes to every manifest that lists the chunk
GAP_BYTES = 1 << 18  # parts with no more between them are read together: a request to an object store takes longer


class Part(NamedTuple):
    """A range of the bytes of a stored chunk."""

    row: int  # its first row in the chunk
    start: int
    length: int
    checksum: int  # CRC-32


@dataclass(frozen=True, eq=False)
class Parts:
    """Where the parts of a stored chunk lie: one behind the other."""

    slots: int  # that the rows are sorted by
    places: NDArray[np.uint32]  # [5, parts]: first row, first and last slot of the rows, length in bytes, CRC-32

    def runs(self, chosen: Mask) -> list[list[Part]]:
        """Return the parts that may hold rows of the chosen slots, with small gaps filled; side by side in each run."""
        rows, first, last, lengths, checksums = self.places.astype(np.int64)
        ends = np.cumsum(lengths)
        starts = ends - lengths
        found = np.arange(len(rows))
        if len(chosen) == self.slots:  # else it was written under other slots, and any part may hold some
            before = np.concatenate(([0], np.cumsum(chosen)))
            found = np.flatnonzero(before[last + 1] > before[first])
        if not len(found):
            return []
        apart = np.flatnonzero(starts[found[1:]] - ends[found[:-1]] > GAP_BYTES)
        bounds = zip(found[np.append(0, apart + 1)], found[np.append(apart, -1)] + 1, strict=True)
        parts = [Part(*place) for place in np.stack([rows, starts, lengths, checksums], axis=1).tolist()]
        return [parts[begin:end] for begin, end in bounds]


def slot_order(rows: pa.RecordBatch, removed: int, slots: int) -> Numbers | None:
    """Return the order of rows by slot, the removed ones last; None if they will be one part anyway."""
    if _count(rows) == 1:
        return None
    small = np.uint16 if slots <= 1 << 16 else np.int64  # numpy sorts 16 bits in linear time
    of_row = _slots_of(rows, slots).astype(small)
    live = len(of_row) - removed
    return np.concatenate((np.argsort(of_row[:live], kind="stable"), live + np.argsort(of_row[live:], kind="stable")))


def stored(rows: pa.RecordBatch, removed: int, slots: int) -> tuple[bytes, Parts | None]:
    """Return a chunk in its compressed form, and its parts if it has more than one.

    The bytes of all parts are the whole chunk. A part has live rows or removed ones, not both.
    """
    count, live = _count(rows), rows.num_rows - removed
    if count == 1:
        return to_store([rows])[0], None
    step = -(-rows.num_rows // count)
    bounds = [*range(0, live, step), *range(live, rows.num_rows, step), rows.num_rows]
    data, starts = to_store(rows.slice(start, stop - start) for start, stop in pairwise(bounds))
    view, ends, of_row = memoryview(data), [*starts[1:], len(data)], _slots_of(rows, slots)
    places = [
        bounds[:-1],
        np.minimum.reduceat(of_row, bounds[:-1]),
        np.maximum.reduceat(of_row, bounds[:-1]),
        np.subtract(ends, starts),
        [zlib.crc32(view[start:end]) for start, end in zip(starts, ends, strict=True)],
    ]
    return data, Parts(slots, np.array(places, np.uint32))


def _count(rows: pa.RecordBatch) -> int:
    return max(1, min(MOST_PARTS, int(rows.nbytes) // PART_BYTES))


def _slots_of(rows: pa.RecordBatch, slots: int) -> Numbers:
    return slot_of(rows.column(HASH).to_numpy(), slots)
