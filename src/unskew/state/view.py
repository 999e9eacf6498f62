"""The state of one channel's keys, to read."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError, StateError
from unskew.state.chunks import Columns
from unskew.state.groups import Groups, group_rows
from unskew.state.index import ABSENT, KeyIndex, positions_of
from unskew.state.location import Location, locate
from unskew.state.log import ChunkLog, hashes_of

Hashes = NDArray[np.int64]
Mask = NDArray[np.bool_]


class StateView:
    """Rows of a state by key, by hash and by slot; `KeyedState` is one that can be changed.

    Keys are compared exactly, whatever their hashes. Every operation costs what it touches, not what is held, except
    `scan` and the selection of slots (one pass over the index).

    Parameters
    ----------
    log, index
        The rows, and where each key's latest lies.
    slots
        Number of slots; key k lies in slot ``hash(k) mod slots``.
    """

    def __init__(self, log: ChunkLog, index: KeyIndex, slots: int) -> None:
        self._log, self._index, self._slots, self._columns = log, index, slots, log.columns
        self._located: tuple[Groups, Location] | None = None
        self._closed = False

    @property
    def rows(self) -> int:
        """Keys held."""
        return self._open_index.rows

    @property
    def bytes(self) -> int:
        """Size of the rows held, as they would lie in an Arrow table."""
        return int(self.slot_bytes.sum())

    @property
    def slot_rows(self) -> NDArray[np.int64]:
        """Keys held in each slot, int64[slots]."""
        return self._open_index.slot_rows

    @property
    def slot_bytes(self) -> NDArray[np.int64]:
        """Bytes held in each slot, int64[slots]."""
        return self._open_index.slot_bytes

    @property
    def row_schema(self) -> pa.Schema:
        """The rows of `select`, `extract`, `install` and `scan`: ``hash``, ``key.<name>``..., ``value.<name>``..."""
        return self._columns.rows

    def group(self, rows: pa.Table, hashes: Hashes) -> Groups:
        """Group rows by key (see `unskew.state.groups.group_rows`)."""
        return group_rows(rows, hashes, self._columns.keys.names)

    def get(self, groups: Groups) -> tuple[pa.Table, Mask]:
        """Return the value columns of each group, null where the key is not held, and whether it is."""
        location = self._locate(groups)
        if location.rows is None:
            location.rows = self._log.gather(location.positions)
        return self._columns.values_in(location.rows), location.positions != 0

    def sizes(self, groups: Groups, where: Mask | None = None) -> NDArray[np.int64]:
        """Return the bytes held for each group, or for those for which `where` holds; 0 where the key is not held."""
        hashes, positions = groups.hashes, self._locate(groups).positions
        if where is not None:
            hashes, positions = hashes[where], positions[where]
        return self._open_index.sizes(hashes, positions)

    def held(self, hashes: ArrayLike) -> tuple[Hashes, NDArray[np.int64]]:
        """Return those of some hashes under which keys are held, and the bytes held; once for each such key."""
        found, positions = self._positions(hashes, (), ())
        return found, self._open_index.sizes(found, positions)

    def select(self, hashes: ArrayLike = (), slots: ArrayLike = (), *, keep: ArrayLike = ()) -> pa.Table:
        """Return the rows held of these key hashes, and of these slots except for the key hashes in `keep`."""
        return self._log.gather(self._positions(hashes, slots, keep)[1])

    def scan(self) -> Iterator[pa.Table]:
        """Yield all rows held, chunk by chunk, in no particular order."""
        index = self._open_index
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

    @property
    def earliest(self) -> int | None:
        """No key held has a deadline before this; None if no key has one."""
        self._check_open()
        return min((chunk.earliest for chunk in self._log if chunk.live and chunk.earliest is not None), default=None)

    def release(self) -> None:
        """Give back what was opened, as it was found, and close."""
        self.close()

    def close(self) -> None:
        """Drop what has not been given back."""
        if not self._closed:
            self._closed = True
            self._log.entry.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _open_index(self) -> KeyIndex:
        self._check_open()
        return self._index

    def _check_open(self) -> None:
        if self._closed:
            raise StateError("this state is closed", hint="open it anew for the next batch")

    def _locate(self, groups: Groups) -> Location:
        """Find groups; the latest are remembered until the state changes otherwise."""
        index = self._open_index
        if self._located is None or self._located[0] is not groups:
            self._located = groups, locate(groups, index, self._log)
        return self._located[1]

    def _positions(self, hashes: ArrayLike, slots: ArrayLike, keep: ArrayLike) -> tuple[Hashes, Hashes]:
        """Return hash and position of each key to select."""
        index, single = self._open_index, np.unique(np.asarray(hashes, np.int64))
        found, buckets = [np.empty(0, np.int64)], index.find(single)
        positions = [np.empty(0, np.int64)]
        while (buckets != ABSENT).any():
            single, buckets = single[buckets != ABSENT], buckets[buckets != ABSENT]
            found.append(single)
            positions.append(index.positions(buckets))
            buckets = index.find(single, after=buckets)
        chosen = np.zeros(self._slots, np.bool_)
        chosen[np.asarray(slots, np.int64)] = True
        if chosen.any():
            in_slots, there = index.in_slots(chosen)
            apart = ~np.isin(in_slots, np.concatenate([np.asarray(keep, np.int64), *found]))
            found.append(in_slots[apart])
            positions.append(there[apart])
        return np.concatenate(found), np.concatenate(positions)
