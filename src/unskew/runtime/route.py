"""ROUTE: packs become parcels, each for one channel; orders and moved state join them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.codec import dump
from unskew.operators import Operator
from unskew.routing.table import RoutingTable
from unskew.runtime import wire
from unskew.runtime.extract import Extract
from unskew.runtime.orders import Order
from unskew.runtime.prepare import combined
from unskew.runtime.tuple_routes import ByScheme, Head, LeastLoaded, TupleRoute
from unskew.runtime.wire import pack, record_batch, unpack
from unskew.splitters.base import Splitter
from unskew.state.carried import NotHereError
from unskew.state.groups import group_rows

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Route:
    """Sends the rows of packs to the channels that the table says.

    The output depends on the packs and the fields alone, because Spark may run the task again.
    """

    operator: Operator
    table: RoutingTable
    task_of: Channels  # the task that each channel runs in
    extract: Extract
    errands: Mapping[int, tuple[Order, ...]]  # orders that go out with the packs of a source, and state that moves
    combine: bool = False  # combine rows here, because the table decides tuple by tuple
    forward: bool = False  # send counts on to the driver, because it has not seen them
    scheme: Splitter | None = None  # sends all rows to workers, as they are
    head: Head = field(default_factory=Head)  # the hottest keys of the batch, for the scheme

    @property
    def orders(self) -> list[Order]:
        """All orders, by channel."""
        return sorted((order for orders in self.errands.values() for order in orders), key=lambda each: each.channel)

    def __call__(self, packs: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        route: dict[int, TupleRoute] = {}
        for batch in packs:
            places = [batch.column(name).to_pylist() for name in ("source", "sequence")]
            columns = (*places, batch.column("blob"), batch.column("counts"))
            for source, sequence, blob, counts in zip(*columns, strict=True):
                if sequence == wire.LAST:
                    yield from self.run_errands(self.errands.get(source, ()))
                    if self.forward and counts.is_valid:
                        yield wire.parcel(0, 0, wire.COUNTS, counts.as_py(), source)
                    continue
                if source not in route:
                    route[source] = self._tuple_route(source)
                yield self._routed(unpack(blob.as_buffer()), route[source], source, sequence)

    def _tuple_route(self, source: int) -> TupleRoute:
        if self.scheme is not None:
            return ByScheme(self.scheme, self.head, self.table.channels, source)
        return LeastLoaded(self.table, source) if self.table.split else self.table.lookup

    def _routed(self, rows: pa.Table, route: TupleRoute, source: int, sequence: int) -> pa.RecordBatch:
        hashes = rows.column(wire.HASH_COLUMN).to_numpy()
        channels = route(hashes)
        if self.combine and self.scheme is None:
            rows = rows.drop_columns([wire.HASH_COLUMN])
            groups, channels = group_rows(rows, hashes, self.operator.key).apart(channels)
            rows = combined(rows, groups, self.operator)
        return parcels(rows, channels, self.task_of, source, sequence)

    def run_errands(self, orders: tuple[Order, ...]) -> Iterator[pa.RecordBatch]:
        """Yield orders, and the state that leaves channels."""
        tasks = self.task_of.tolist()
        rows = ((tasks[order.channel], order.channel, wire.ORDER, 0, 0, dump(order)) for order in orders)
        yield from wire.gathered(wire.PARCELS, rows)
        for order in orders:
            if len(order.moves):
                try:
                    yield from self.extract(order)
                except NotHereError:
                    yield wire.parcel(tasks[order.channel], order.channel, wire.MISSED, None)


@dataclass(frozen=True, eq=False)
class Worker:
    """Turns the rows that a scheme has sent to a worker into one partial state per key, for the keys' owners.

    A worker keeps nothing between batches: the paper's aggregation, with a batch as the period. Orders and moved state
    pass through. The output depends on the parcels, not on the order in which they come.
    """

    operator: Operator
    table: RoutingTable
    task_of: Channels

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: dict[int, list[tuple[int, int, pa.Buffer]]] = defaultdict(list)
        for batch in batches:
            of_rows = np.asarray(batch.column("kind")) == wire.ROWS
            if not of_rows.all():
                yield batch.filter(pa.array(~of_rows))
            rows = batch.filter(pa.array(of_rows))
            columns = (rows.column(name).to_pylist() for name in ("channel", "source", "sequence"))
            for worker, source, sequence, blob in zip(*columns, rows.column("blob"), strict=True):
                mine[worker].append((source, sequence, blob.as_buffer()))
        for worker, packs in sorted(mine.items()):
            ordered = [unpack(blob) for _, _, blob in sorted(packs, key=lambda each: each[:2])]
            arrived = pa.concat_tables(ordered).combine_chunks()
            groups = group_rows(arrived, arrived.column(wire.HASH_COLUMN).to_numpy(), self.operator.key)
            partial = combined(arrived.drop_columns([wire.HASH_COLUMN]), groups, self.operator)
            yield parcels(partial, self.table.lookup(groups.hashes), self.task_of, worker, 0)


def parcels(
    rows: pa.Table, channels: Channels, task_of: Channels, source: int, sequence: int, kind: int = wire.ROWS
) -> pa.RecordBatch:
    """Return one parcel for every channel that gets rows; within a channel the rows keep their order."""
    order, starts = _kernel_order_by_channel(channels, len(task_of))
    ordered = rows.take(pa.array(order))
    present = np.flatnonzero(np.diff(starts)).tolist()
    blobs = [pack(ordered.slice(starts[c], starts[c + 1] - starts[c]).combine_chunks()) for c in present]
    same = [[value] * len(present) for value in (kind, source, sequence)]
    return record_batch(wire.PARCELS, [int(task_of[c]) for c in present], present, *same, blobs)


@njit(cache=True)
def _kernel_order_by_channel(channels: Channels, count: int) -> tuple[Hashes, Hashes]:
    """Return a stable order by channel, and where each channel starts in it: a counting sort."""
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
