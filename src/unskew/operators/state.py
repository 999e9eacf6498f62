"""Keyed columnar state: what a channel knows about its keys, as a log of Arrow chunks."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from unskew.operators.cache import CachePlace
from unskew.operators.groups import Groups
from unskew.operators.store import ChunkStore

Hashes = NDArray[np.int64]
Mask = NDArray[np.bool_]


class KeyedState:
    """The state of one channel's keys: key columns to value columns of any Arrow type.

    Opened for one batch, changed in memory, then committed or closed. Keys are compared exactly, whatever their
    hashes. Every operation costs what it touches, not what is held, except `scan` and a slot's extraction (one pass
    over the index) and opening without a cache (one pass over everything).
    """

    @classmethod
    def open(
        cls,
        store: ChunkStore,
        key_schema: pa.Schema,
        value_schema: pa.Schema,
        *,
        slots: int,
        deadline: str | None = None,
        cache: CachePlace | None = None,
    ) -> KeyedState:
        """Open the state as the store has it.

        Parameters
        ----------
        store
            The durable side.
        key_schema, value_schema
            The columns; a store written with others is refused with `CheckpointError`.
        slots
            Number of slots; key k lies in slot ``hash(k) mod slots``.
        deadline
            Name of the int64 value column that `due` goes by.
        cache
            Where this channel's local copy lies; without one, everything is read from the store into memory.
        """
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """Keys held."""
        raise NotImplementedError

    @property
    def bytes(self) -> int:
        """Size of the rows held, as they would lie in an Arrow table."""
        raise NotImplementedError

    @property
    def slot_rows(self) -> NDArray[np.int64]:
        """Keys held in each slot, int64[slots]."""
        raise NotImplementedError

    @property
    def slot_bytes(self) -> NDArray[np.int64]:
        """Bytes held in each slot, int64[slots]."""
        raise NotImplementedError

    @property
    def row_schema(self) -> pa.Schema:
        """The rows of `select`, `extract`, `install` and `scan`: ``hash``, ``key.<name>``..., ``value.<name>``..."""
        raise NotImplementedError

    def group(self, rows: pa.Table, hashes: Hashes) -> Groups:
        """Group rows by key (see `unskew.operators.groups.group_rows`)."""
        raise NotImplementedError

    def get(self, groups: Groups) -> tuple[pa.Table, Mask]:
        """Return the value columns of each group, null where the key is not held, and whether it is."""
        raise NotImplementedError

    def sizes(self, groups: Groups) -> NDArray[np.int64]:
        """Return the bytes held for each group, 0 where the key is not held."""
        raise NotImplementedError

    def put(self, groups: Groups, values: pa.Table, where: Mask | None = None) -> None:
        """Set the values of groups: all, or those for which `where` holds. `values` has one row for every group."""
        raise NotImplementedError

    def remove(self, groups: Groups, where: Mask | None = None) -> None:
        """Forget groups: all, or those for which `where` holds. Keys that are not held are passed over."""
        raise NotImplementedError

    def due(self, until_ms: int) -> Groups:
        """Return the keys held whose `deadline` is at most `until_ms`, as groups without rows.

        A null deadline is never due. Costs what is due, and now and then a pass over a chunk in which none was.
        """
        raise NotImplementedError

    def select(self, hashes: ArrayLike = (), slots: ArrayLike = (), *, keep: ArrayLike = ()) -> pa.Table:
        """Return the rows held of these key hashes, and of these slots except for the key hashes in `keep`."""
        raise NotImplementedError

    def extract(self, hashes: ArrayLike = (), slots: ArrayLike = (), *, keep: ArrayLike = ()) -> pa.Table:
        """Remove what `select` returns, and return it."""
        raise NotImplementedError

    def install(self, rows: pa.Table) -> None:
        """Take in what `extract` gave on another channel; a key that is held already raises `StateError`."""
        raise NotImplementedError

    def scan(self) -> Iterator[pa.Table]:
        """Yield all rows held, chunk by chunk, in no particular order."""
        raise NotImplementedError

    def group_stored(self, rows: pa.Table) -> tuple[Groups, pa.Table]:
        """Group rows of `row_schema` by key; returns the groups and the value columns, row by row."""
        raise NotImplementedError

    @staticmethod
    def group_stored_rows(rows: pa.Table, key_schema: pa.Schema, value_schema: pa.Schema) -> tuple[Groups, pa.Table]:
        """Group rows of a state's `row_schema` by key, without that state."""
        raise NotImplementedError

    def commit(self, nonce: str) -> None:
        """Write what has changed to the store, publish the local copy, and close.

        Parameters
        ----------
        nonce
            Text that no other attempt at any batch of this channel uses: letters, digits, ``-`` and ``_``.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Drop what has changed since `open`; after `commit`, nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
