"""PREPARE: the rows of one partition, hashed, combined where that is possible, packed, and counted by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from unskew.codec import dump
from unskew.hashing import xxhash64
from unskew.load.statistics import add_up
from unskew.operators import Clock, Operator
from unskew.operators.presum import Presum
from unskew.routing.lookup import slot_of
from unskew.runtime.canonical import canonical_indices
from unskew.runtime.count import Counts
from unskew.runtime.cutting import BYTES_AT_ONCE, cut, cut_in_order
from unskew.runtime.measure import key_text
from unskew.runtime.wire import COUNT_COLUMN, HASH_COLUMN, LAST, PACKS, PLACE_COLUMN, pack, record_batch
from unskew.state.groups import Groups, group_rows

Hashes = NDArray[np.int64]

ROWS_PACKED_AT_ONCE = 1 << 18


@dataclass(frozen=True)
class Prepare:
    """Turns the rows of one partition into packs.

    The output depends on the partition's contents alone, to the byte, because Spark may run the task again. Behind a
    shuffle the order of rows is not fixed; `canonical` sorts them first, which holds the whole partition in memory.
    """

    operator: Operator
    slots: int
    tracked_keys: int | None  # keys to count one by one, at most; None: all, 0: count nothing by key
    channels: int = 1  # partitions that Spark's own hash would choose from
    combine: bool = True  # combine the rows of a key; where the table decides tuple by tuple, `Route` does that
    canonical: bool = False
    clock: Clock | None = None
    presum: Presum | None = None  # how Spark has combined the rows already; None if it has not

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packs (`wire.PACKS`), with the counts last."""
        counter = _Counter(self.slots, self.tracked_keys, self.channels)
        for sequence, arrived in enumerate(self._cut(batches)):
            rows = self._combined(arrived, counter) if self.presum is None else self._presummed(arrived, counter)
            yield record_batch(PACKS, [source], [sequence], [pack(rows.combine_chunks())], [None])
        yield record_batch(PACKS, [source], [LAST], [None], [dump(counter.counts(source))])

    def _combined(self, arrived: pa.Table, counter: _Counter) -> pa.Table:
        """Return rows with their hashes, one per key where the operator can combine them."""
        places, rows = None, arrived
        if PLACE_COLUMN in rows.column_names:
            places, rows = rows.column(PLACE_COLUMN).to_numpy(), rows.drop_columns([PLACE_COLUMN])
        rows, hashes = with_hashes(self.operator.expand(rows), self.operator.key)
        if self.operator.learns or (places is not None and len(places) != rows.num_rows):
            places = None  # the operator has made other rows of these
        groups = group_rows(rows, hashes, self.operator.key)
        counter.add(groups, rows.num_rows, places)
        if self.combine and self.operator.mergeable:
            return combined(rows, groups, self.operator, self.clock)
        return rows.append_column(HASH_COLUMN, pa.array(hashes))

    def _presummed(self, arrived: pa.Table, counter: _Counter) -> pa.Table:
        """Return what Spark has combined, with hashes; a combined row counts as one."""
        counts = arrived.column(COUNT_COLUMN)
        rows, hashes = with_hashes(arrived.drop_columns([COUNT_COLUMN]), self.operator.key)
        groups = group_rows(rows, hashes, self.operator.key) if self.tracked_keys != 0 else None
        counter.add(groups, pc.sum(counts).as_py())
        rows = self.operator.from_presum(rows).append_column(HASH_COLUMN, pa.array(hashes))
        return rows.append_column(COUNT_COLUMN, counts)

    def _cut(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Cut the partition into packs; where it is cut depends on the rows alone."""
        if not self.canonical and self.presum is None:
            yield from cut(batches, ROWS_PACKED_AT_ONCE, BYTES_AT_ONCE)
            return
        everything = [batch for batch in batches if batch.num_rows]
        if everything:
            rows = pa.Table.from_batches(everything)
            told_apart = rows if self.presum is None else rows.select([*self.operator.key, *self.presum.groups])
            yield from cut_in_order(rows, canonical_indices(told_apart), ROWS_PACKED_AT_ONCE, BYTES_AT_ONCE)


class _Counter:
    """Adds up the groups of packs."""

    def __init__(self, slots: int, tracked_keys: int | None, channels: int) -> None:
        self._slots, self._tracked, self._channels = slots, tracked_keys, channels
        self._groups: list[Groups] = []
        self._places: list[NDArray[np.int32]] = []
        self._rows, self._place_rows = 0, np.empty(0, np.int64)

    def add(self, groups: Groups | None, rows: int, places: NDArray[np.int32] | None = None) -> None:
        self._rows += rows
        if self._tracked == 0 or groups is None:
            return
        self._groups.append(groups)
        first = np.zeros(len(groups), np.int32)
        if places is not None:
            first[groups.group_of_row[::-1]] = places[::-1]
            there = np.bincount(np.mod(places, self._channels), minlength=self._channels)
            self._place_rows = there if not len(self._place_rows) else self._place_rows + there
        self._places.append(first)

    def counts(self, source: int) -> Counts:
        if not self._groups:
            return Counts((source,), self._rows)
        hashes, first, entry = np.unique(
            np.concatenate([groups.hashes for groups in self._groups]), return_index=True, return_inverse=True
        )
        tuples = add_up(np.concatenate([groups.counts for groups in self._groups]), entry, len(hashes))
        listed = np.ones(len(hashes), np.bool_)
        if self._tracked is not None and len(hashes) > self._tracked:
            listed[:] = False
            listed[np.argpartition(-tuples, self._tracked)[: self._tracked]] = True
        keys = pa.concat_tables([groups.keys for groups in self._groups])
        slot = slot_of(hashes[~listed], self._slots)
        return Counts(
            (source,),
            self._rows,
            hashes[listed],
            tuples[listed],
            key_text(keys.take(pa.array(first[listed]))),
            np.concatenate(self._places)[first[listed]],
            add_up(tuples[~listed], slot, self._slots),
            add_up(np.ones(len(slot)), slot, self._slots),
            self._place_rows,
        )


def combined(rows: pa.Table, groups: Groups, operator: Operator, clock: Clock | None = None) -> pa.Table:
    """Return one row per group, with its hash and the number of rows it stands for."""
    partial, _ = operator.combine(rows, groups, clock)
    partial = partial.append_column(HASH_COLUMN, pa.array(groups.hashes))
    return partial.append_column(COUNT_COLUMN, pa.array(groups.counts))


def with_hashes(rows: pa.Table, key: Sequence[str]) -> tuple[pa.Table, Hashes]:
    """Return rows with their keys as Spark's groupBy compares them, and the hashes of these keys."""
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
