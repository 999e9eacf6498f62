"""The router: sends every row of a partition to the channel that owns its key, packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from unskew.hashing import xxhash64
from unskew.operators import Operator, group_rows
from unskew.routing.table import RoutingTable
from unskew.spark.canonical import canonical_indices
from unskew.spark.cutting import BYTES_AT_ONCE, cut, cut_in_order
from unskew.spark.packing import pack
from unskew.spark.task import current_decision, task_context
from unskew.spark.tuple_routes import ByScheme, LeastLoaded, TupleRoute
from unskew.splitters.base import Splitter

HASH_COLUMN = "__unskew_hash"
COUNT_COLUMN = "__unskew_count"
ROUTED_SCHEMA = "label int, source int, sequence int, blob binary"
ROUTED_ARROW = pa.schema(
    [("label", pa.int32()), ("source", pa.int32()), ("sequence", pa.int32()), ("blob", pa.binary())]
)

ROWS_PACKED_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class PackedRows:
    """Rows on their way to channels: one row of the shuffle per channel and pack, all rows of the pack inside.

    Parameters
    ----------
    labels
        The group label of each channel.
    """

    labels: tuple[int, ...]

    def rows(self, rows: pa.Table, channels: NDArray[np.int32], source: int, sequence: int) -> pa.RecordBatch:
        """Return one pack of rows, given the channel of each; their order is kept within a channel."""
        order, starts = _kernel_order_by_channel(channels, len(self.labels))
        sorted_rows = rows.take(pa.array(order))
        present = np.flatnonzero(np.diff(starts)).tolist()
        blobs = [pack(sorted_rows.slice(starts[c], starts[c + 1] - starts[c]).combine_chunks()) for c in present]
        return self._batch(present, source, sequence, blobs)

    def ticks(self, channels: int, source: int) -> pa.RecordBatch:
        """Return a row without a blob for each of the first channels: they are called though they get nothing."""
        return self._batch(range(channels), source, -1, [None] * channels)

    def nothing(self) -> pa.RecordBatch:
        """Return no row."""
        return self._batch((), 0, 0, ())

    def _batch(
        self, channels: Sequence[int], source: int, sequence: int, blobs: Sequence[bytes | None]
    ) -> pa.RecordBatch:
        columns = [[self.labels[c] for c in channels], [source] * len(blobs), [sequence] * len(blobs), blobs]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ROUTED_ARROW, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ROUTED_ARROW)


@dataclass(frozen=True)
class Router:
    """A function for ``mapInArrow``: record batches in, one row per channel and pack out.

    The output is a function of the batch's decision and the partition's contents, bytes included: Spark may run the
    task again. Where the order of a partition's rows is not fixed (a shuffle lies upstream) `canonical` puts them into
    an order of their own first, which holds the whole partition in memory. Packs have at most `ROWS_PACKED_AT_ONCE`
    rows and `BYTES_AT_ONCE` bytes.

    The task of the first partition also sends every channel a tick, so that all of them are called in every batch that
    has rows.

    Parameters
    ----------
    query
        Name under which decisions are found.
    operator
        Who works on the rows; it may combine them before they travel.
    packed
        How rows travel.
    canonical
        Whether to sort the rows first.
    scheme
        By which to send every row to a worker as it is, and no tick; without one, rows go to the owners of their keys.
    """

    query: str
    operator: Operator
    packed: PackedRows
    canonical: bool = False
    scheme: Splitter | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one partition."""
        decision = current_decision(self.query)
        table, source = decision.table, task_context().partitionId()
        operator = self.operator.taught(decision.lesson)
        if self.scheme is not None:
            by_scheme = ByScheme(self.scheme, decision.head, table.channels, source)
            for sequence, rows in enumerate(map(operator.expand, self._packs(batches))):
                _, hashes = with_hashes(rows, operator.key)
                yield self.packed.rows(rows, by_scheme(hashes), source, sequence)
            return
        if source == 0:
            yield self.packed.ticks(decision.channels_called, source)
        tuple_route = LeastLoaded(table, source) if table.split else None
        for sequence, rows in enumerate(map(operator.expand, self._packs(batches))):
            routed, channels = prepare(rows, operator, table, tuple_route)
            yield self.packed.rows(routed, channels, source, sequence)

    def _packs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Cut the partition into packs at places that depend on its rows alone."""
        if self.canonical:
            everything = [batch for batch in batches if batch.num_rows]
            if everything:
                rows = pa.Table.from_batches(everything)
                yield from cut_in_order(rows, canonical_indices(rows), ROWS_PACKED_AT_ONCE, BYTES_AT_ONCE)
            return
        yield from cut(batches, ROWS_PACKED_AT_ONCE, BYTES_AT_ONCE)


def prepare(
    rows: pa.Table, operator: Operator, table: RoutingTable, tuple_route: TupleRoute | None = None
) -> tuple[pa.Table, NDArray[np.int32]]:
    """Return rows with the hash of their key, and the channel of each: the key's owner, or who `tuple_route` chooses.

    Where the operator can, the rows of a key that go to the same channel are combined into one, with their number.
    """
    rows, hashes = with_hashes(rows, operator.key)
    if not operator.mergeable:
        return rows.append_column(HASH_COLUMN, pa.array(hashes)), table.lookup(hashes)
    groups = group_rows(rows, hashes, operator.key)
    if tuple_route is None:
        channels = table.lookup(groups.hashes)
    else:
        groups, channels = groups.apart(tuple_route(hashes))
    combined, _ = operator.combine(rows, groups)
    combined = combined.append_column(HASH_COLUMN, pa.array(groups.hashes))
    return combined.append_column(COUNT_COLUMN, pa.array(groups.counts)), channels


def with_hashes(rows: pa.Table, key: Sequence[str]) -> tuple[pa.Table, NDArray[np.int64]]:
    """Return rows whose key columns are as Spark's groupBy compares them, and the hashes of their keys."""
    for name in key:
        if pa.types.is_floating(rows.schema.field(name).type):
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(name), _normal_floats(rows.column(name)))
    return rows, xxhash64([rows.column(name) for name in key], names=list(key))


def _normal_floats(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn -0.0 into 0.0 and every NaN into the same one, as Spark does with grouping keys."""
    zero, nan = (pa.scalar(value, column.type) for value in (0.0, float("nan")))
    column = pc.if_else(pc.equal(column, zero), zero, column)
    return pc.if_else(pc.is_nan(column), nan, column)


@njit(cache=True)
def _kernel_order_by_channel(channels: NDArray[np.int32], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
