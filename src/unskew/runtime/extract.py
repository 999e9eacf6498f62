"""EXTRACT: the state that leaves a channel, as parcels for those that get it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.runtime.cutting import cut
from unskew.runtime.orders import Order
from unskew.runtime.site import Site
from unskew.runtime.wire import STATE, pack, parcel
from unskew.state.chunks import HASH

ROWS_AT_ONCE = 1 << 18


@dataclass(frozen=True, eq=False)
class Extract:
    """Reads the state of moved keys; the channel that loses them forgets them when it works.

    The output is sorted by hash, so that a task that runs again yields the same bytes.
    """

    site: Site
    task_of: NDArray[np.int32]  # the task that each channel runs in

    def __call__(self, order: Order) -> Iterator[pa.RecordBatch]:
        with self.site.view(order) as state:
            for target, keys, slots in order.leaving():
                rows = state.select(keys, slots, keep=order.listed)
                if not rows.num_rows:
                    continue
                rows = rows.sort_by(HASH).combine_chunks()
                for sequence, part in enumerate(cut(rows.to_batches(), ROWS_AT_ONCE)):
                    blob = pack(part.combine_chunks())
                    yield parcel(int(self.task_of[target]), target, STATE, blob, order.channel, sequence)
            state.release()
