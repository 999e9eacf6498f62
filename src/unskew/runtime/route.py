"""ROUTE: packs become parcels, each for one channel; orders and moved state join them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.codec import dump
from unskew.operators import Operator
from unskew.routing.table import RoutingTable
from unskew.runtime.extract import Extract
from unskew.runtime.orders import Order
from unskew.runtime.prepare import combined
from unskew.runtime.tuple_routes import ByScheme, Head, LeastLoaded, TupleRoute
from unskew.runtime.wire import (
    COUNTS,
    HASH_COLUMN,
    LAST,
    MISSED,
    ORDER,
    PARCELS,
    ROWS,
    gathered,
    pack,
    record_batch,
    unpack,
)
from unskew.splitters.base import Splitter
from unskew.state.carried import NotHereError
from unskew.state.groups import group_rows

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Route:
    """Sends the rows of packs to the channels that the table says.

    The output is a function of the packs and of what is told here: Spark may run the task again.

    Parameters
    ----------
    operator
        Who works on the rows.
    table
        Who owns which key in this batch.
    task_of
        The task that each channel runs in.
    extract
        Reads the state of channels that lose keys.
    errands
        Orders that go out with the packs of a source. A channel that loses keys has its state read there, too.
    combine
        Whether rows are combined here, after the table has decided tuple by tuple.
    forward
        Whether counts travel on to the driver, because it has not seen them.
    scheme, head
        A splitting scheme for all rows, and the hottest keys of the batch; rows then go to workers, as they are.
    """

    operator: Operator
    table: RoutingTable
    task_of: Channels
    extract: Extract
    errands: Mapping[int, tuple[Order, ...]]
    combine: bool = False
    forward: bool = False
    scheme: Splitter | None = None
    head: Head = field(default_factory=Head)

    def __call__(self, packs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        route: dict[int, TupleRoute] = {}
        for batch in packs:
            sources, sequences = batch.column("source").to_pylist(), batch.column("sequence").to_pylist()
            columns = (sources, sequences, batch.column("blob"), batch.column("counts"))
            for source, sequence, blob, counts in zip(*columns, strict=True):
                if sequence == LAST:
                    yield from self.run_errands(self.errands.get(source, ()))
                    if self.forward and counts.is_valid:
                        yield record_batch(PARCELS, [0], [0], [COUNTS], [source], [0], [counts.as_py()])
                    continue
                if source not in route:
                    route[source] = self._tuple_route(source)
                yield self._routed(unpack(blob.as_buffer()), route[source], source, sequence)

    def _tuple_route(self, source: int) -> TupleRoute:
        if self.scheme is not None:
            return ByScheme(self.scheme, self.head, self.table.channels, source)
        return LeastLoaded(self.table, source) if self.table.split else self.table.lookup

    def _routed(self, rows: pa.Table, route: TupleRoute, source: int, sequence: int) -> pa.RecordBatch:
        hashes = rows.column(HASH_COLUMN).to_numpy()
        channels = route(hashes)
        if self.combine and self.scheme is None:
            rows = rows.drop_columns([HASH_COLUMN])
            groups, channels = group_rows(rows, hashes, self.operator.key).apart(channels)
            rows = combined(rows, groups, self.operator)
        return parcels(rows, channels, self.task_of, source, sequence)

    def run_errands(self, orders: tuple[Order, ...]) -> Iterator[pa.RecordBatch]:
        """Yield orders, and the state that leaves channels."""
        tasks = self.task_of.tolist()
        yield from gathered(PARCELS, ((tasks[each.channel], each.channel, ORDER, 0, 0, dump(each)) for each in orders))
        for order in orders:
            if len(order.moves):
                try:
                    yield from self.extract(order)
                except NotHereError:
                    yield record_batch(PARCELS, [tasks[order.channel]], [order.channel], [MISSED], [0], [0], [None])


def parcels(
    rows: pa.Table, channels: Channels, task_of: Channels, source: int, sequence: int, kind: int = ROWS
) -> pa.RecordBatch:
    """Return one parcel for every channel that gets rows; their order is kept within a channel."""
    order, starts = _kernel_order_by_channel(channels, len(task_of))
    ordered = rows.take(pa.array(order))
    present = np.flatnonzero(np.diff(starts)).tolist()
    blobs = [pack(ordered.slice(starts[c], starts[c + 1] - starts[c]).combine_chunks()) for c in present]
    same = [[value] * len(present) for value in (kind, source, sequence)]
    return record_batch(PARCELS, [int(task_of[c]) for c in present], present, *same, blobs)


@njit(cache=True)
def _kernel_order_by_channel(channels: Channels, count: int) -> tuple[Hashes, Hashes]:
    """Return a stable order by channel and where each channel starts in it (a counting sort)."""
    starts = np.zeros(count + 1, np.int64)
    for channel in channels:
        starts[channel + 1] += 1
    for channel in range(count):
        starts[channel + 1] += starts[channel]
    place = starts[:-1].copy()
    order = np.empty(len(channels), np.int64)
    for row in range(len(channels)):
        channel = channels[row]
        order[place[channel]] = row
        place[channel] += 1
    return order, starts
