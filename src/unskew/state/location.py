"""Finding the rows of keys, exactly: by hash first, then by comparing the keys themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.state.chunks import plain_arrays
from unskew.state.groups import Groups
from unskew.state.index import ABSENT, KeyIndex
from unskew.state.log import ChunkLog
from unskew.state.same_keys import same_keys

Numbers = NDArray[np.int64]


@dataclass
class Location:
    """Where the keys of groups lie: the position of each (0 if it is not held), and the rows there if gathered."""

    positions: Numbers
    rows: pa.Table | None = None


def locate(groups: Groups, index: KeyIndex, log: ChunkLog) -> Location:
    """Find the keys of groups.

    One probe and one comparison per key; another round for keys whose hash belongs to another key too.
    """
    columns = log.columns
    keys = pa.Table.from_arrays(plain_arrays(groups.keys, columns.keys), schema=columns.keys)
    buckets = index.find(groups.hashes)
    positions = index.positions(buckets)
    rows = log.gather(positions)
    strange = (buckets != ABSENT) & ~same_keys(columns.keys_in(rows), keys)
    pending = np.flatnonzero(strange)
    if not pending.size:
        return Location(positions, rows)
    while pending.size:
        buckets[pending] = index.find(groups.hashes[pending], after=buckets[pending])
        pending = pending[buckets[pending] != ABSENT]
        found = log.gather(index.positions(buckets[pending]))
        pending = pending[~same_keys(columns.keys_in(found), keys.take(pa.array(pending)))]
    return Location(index.positions(buckets))
