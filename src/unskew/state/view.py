"""The state of one channel's keys, to read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from unskew.errors import ArgumentError, StateError
from unskew.state.chunks import Columns
from unskew.state.groups import Groups, Hashes, Mask, Numbers, group_rows
from unskew.state.index import ABSENT, KeyIndex, positions_of
from unskew.state.log import ChunkLog, hashes_of


class StateView:
    """Rows of a state by key, by hash and by slot; `KeyedState` is one that can be changed.

    Keys are compared exactly, whatever their hashes. Every operation costs what it touches, not what is held, except
    `scan` and the selection of slots (one pass over the index).
    """

    def __init__(self, log: ChunkLog, index: KeyIndex) -> None:
        self._log, self._opened, self._columns = log, index, log.columns
        self._located: tuple[Groups, Numbers, pa.Table | None] | None = None  # the latest, until the state changes
        self._closed = False

    @property
    def rows(self) -> int:
        """Number of keys held."""
        return self._index.rows

    @property
    def bytes(self) -> int:
        """Size of the rows held, as they would lie in an Arrow table."""
        return int(self.slot_bytes.sum())

    @property
    def slot_rows(self) -> Numbers:
        """Number of keys held in each slot, int64[slots]."""
        return self._index.slot_rows

    @property
    def slot_bytes(self) -> Numbers:
        """Bytes held in each slot, int64[slots]."""
        return self._index.slot_bytes

    @property
    def row_schema(self) -> pa.Schema:
        """The rows of `select`, `extract`, `install` and `scan`: ``hash``, ``key.<name>``..., ``value.<name>``..."""
        return self._columns.rows

    @property
    def earliest(self) -> int | None:
        """No key held has a deadline before this; None if no key has one."""
        self._check_open()
        return min((chunk.earliest for chunk in self._log if chunk.live and chunk.earliest is not None), default=None)

    def group(self, rows: pa.Table, hashes: Hashes) -> Groups:
        """Group rows by key (see `unskew.state.groups.group_rows`)."""
        return group_rows(rows, hashes, self._columns.keys.names)

    def get(self, groups: Groups) -> tuple[pa.Table, Mask]:
        """Return the value columns of each group, null where the key is not held, and whether it is."""
        positions, rows = self._locate(groups)
        if rows is None:
            rows = self._log.gather(positions)
            self._located = groups, positions, rows
        return self._columns.values_in(rows), positions != 0

    def sizes(self, groups: Groups, where: Mask | None = None) -> Numbers:
        """Return the bytes held for each group, or for those for which `where` holds; 0 where the key is not held."""
        hashes, (positions, _) = groups.hashes, self._locate(groups)
        if where is not None:
            hashes, positions = hashes[where], positions[where]
        return self._index.sizes(hashes, positions)

    def held(self, hashes: ArrayLike) -> tuple[Hashes, Numbers]:
        """Return those of some hashes under which keys are held, and the bytes held; once for each such key."""
        found, positions = self._positions(hashes, (), ())
        return found, self._index.sizes(found, positions)

    def select(self, hashes: ArrayLike = (), slots: ArrayLike = (), *, keep: ArrayLike = ()) -> pa.Table:
        """Return the rows held of these key hashes, and of these slots except for the key hashes in `keep`."""
        return self._log.gather(self._positions(hashes, slots, keep)[1])

    def scan(self) -> Iterator[pa.Table]:
        """Yield all rows held, chunk by chunk, in no particular order."""
        index = self._index
        for chunk in self._log:
            if chunk.live:
                rows = self._log.batch(chunk)
                live = index.is_live(hashes_of(rows), positions_of(chunk.sequence, chunk.rows))
                yield pa.Table.from_batches([rows.take(pa.array(np.flatnonzero(live)))])

    def group_stored(self, rows: pa.Table) -> tuple[Groups, pa.Table]:
        """Group rows of `row_schema` by key; returns the groups and the value columns, row by row."""
        return self.group_stored_rows(rows, self._columns.keys, self._columns.values)

    @staticmethod
    def group_stored_rows(rows: pa.Table, key_schema: pa.Schema, value_schema: pa.Schema) -> tuple[Groups, pa.Table]:
        """Group rows of a state's `row_schema` by key, without that state."""
        columns = Columns.of(key_schema, value_schema)
        if rows.column_names != columns.rows.names:
            raise ArgumentError("these rows are not from a state of this kind", got=rows.column_names)
        rows = rows.cast(columns.rows).combine_chunks()
        groups = group_rows(columns.keys_in(rows), hashes_of(rows), columns.keys.names)
        return groups, columns.values_in(rows)

    def release(self) -> None:
        """Give back what was opened, as it was found, and close."""
        self.close()

    def close(self) -> None:
        """Discard what has not been given back."""
        if not self._closed:
            self._closed = True
            self._log.entry.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _index(self) -> KeyIndex:
        self._check_open()
        return self._opened

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("this state is closed", hint="open it anew for the next batch")

    def _locate(self, groups: Groups) -> tuple[Numbers, pa.Table | None]:
        """Return the position of each group's key, and the rows there if they have been gathered."""
        index = self._index
        if self._located is None or self._located[0] is not groups:
            self._located = groups, *self._log.locate(groups.hashes, groups.keys, index)
        return self._located[1:]

    def _positions(self, hashes: ArrayLike, slots: ArrayLike, keep: ArrayLike) -> tuple[Hashes, Numbers]:
        """Return hash and position of each key to select."""
        index, single = self._index, np.unique(np.asarray(hashes, np.int64))
        buckets = index.find(single)
        found, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        while (buckets != ABSENT).any():
            single, buckets = single[buckets != ABSENT], buckets[buckets != ABSENT]
            found.append(single)
            positions.append(index.positions(buckets))
            buckets = index.find(single, after=buckets)
        chosen = np.zeros(len(self.slot_rows), np.bool_)
        chosen[np.asarray(slots, np.int64)] = True
        if chosen.any():
            in_slots, there = index.in_slots(chosen)
            apart = ~np.isin(in_slots, np.concatenate([np.asarray(keep, np.int64), *found]))
            found.append(in_slots[apart])
            positions.append(there[apart])
        return np.concatenate(found), np.concatenate(positions)
