"""GIVE: the state of channels as pieces of files, for tasks that cannot read it themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from unskew.runtime.orders import Order
from unskew.runtime.route import Route
from unskew.runtime.wire import GIVEN, PARCELS, enveloped, record_batch
from unskew.state.files import Piece


@dataclass(frozen=True, eq=False)
class Give:
    """Sends pieces to the channels that need them, and runs the errands of these channels, which need them too.

    Parameters
    ----------
    route
        Who runs errands.
    orders
        The orders of these channels.
    pieces
        What makes up the state of each.
    """

    route: Route
    orders: Mapping[int, Order]
    pieces: Mapping[int, tuple[Piece, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield parcels (`wire.PARCELS`); in come pieces (`wire.PIECES`), all of a channel in one task."""
        route, seen = self.route, set()
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("channel", "name", "offset"))
            for channel, name, offset, contents in zip(*columns, batch.column("contents"), strict=True):
                seen.add(channel)
                route.extract.site.files.take_in(name, offset, contents.as_buffer())
                place = [[int(route.task_of[channel])], [channel], [GIVEN], [0], [0]]
                yield record_batch(PARCELS, *place, [enveloped(name, offset, contents.as_buffer())])
        for channel in sorted(seen):
            yield from route.run_errands((self.orders[channel],))
