"""GIVE: the state of channels as files, for tasks that cannot read it themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from unskew.runtime.orders import Order
from unskew.runtime.route import Route
from unskew.runtime.wire import GIVEN, PARCELS, record_batch, with_name


@dataclass(frozen=True, eq=False)
class Give:
    """Sends files to the channels that need them, and runs the errands of these channels, which need them too.

    Parameters
    ----------
    route
        Who runs errands.
    orders
        The orders of these channels.
    files
        Which files make up the state of each.
    """

    route: Route
    orders: Mapping[int, Order]
    files: Mapping[int, tuple[str, ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield parcels (`wire.PARCELS`); in come files (`wire.FILES`), all of a channel in one task."""
        route, seen = self.route, set()
        for batch in batches:
            channels, names = batch.column("channel").to_pylist(), batch.column("name").to_pylist()
            for channel, name, contents in zip(channels, names, batch.column("contents"), strict=True):
                seen.add(channel)
                route.extract.site.files.take_in(name, 0, contents.as_buffer())
                place = [[int(route.task_of[channel])], [channel], [GIVEN], [0], [0]]
                yield record_batch(PARCELS, *place, [with_name(name, contents.as_buffer())])
        for channel in sorted(seen):
            yield from route.run_errands((self.orders[channel],))
