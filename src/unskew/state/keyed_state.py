"""Keyed columnar state: what a channel knows about its keys, as a log of Arrow chunks."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from unskew.errors import ArgumentError, StateError
from unskew.routing.lookup import slot_of
from unskew.state.cache import CachePlace
from unskew.state.chunks import VALUE_PREFIX, Columns
from unskew.state.compaction import Compaction, Layout
from unskew.state.file_entry import Entry
from unskew.state.groups import Groups, Hashes, Mask, Numbers
from unskew.state.index import KeyIndex, positions_of
from unskew.state.log import ChunkLog, hashes_of
from unskew.state.manifest import Chunk, Manifest
from unskew.state.parts import stored
from unskew.state.recovery import Found, manifest_in, recover_index
from unskew.state.sizes import row_bytes
from unskew.state.store import ChunkStore
from unskew.state.view import StateView

_NONCE = re.compile(r"[A-Za-z0-9_-]{1,100}")


class KeyedState(StateView):
    """The state of one channel's keys: key columns to value columns of any Arrow type.

    Opened for one batch, changed in memory, then committed or closed. Keys are compared exactly, whatever their
    hashes. Every operation costs what it touches, not what is held, except `scan`, the selection of slots (one pass
    over the index) and opening without a cache (one pass over everything).

    What a batch changes becomes one chunk of rows in the store, and chunks are never changed. An index says where the
    latest row of each key lies. Every commit merges and cleans some chunks (see `unskew.state.compaction`), so that the
    store holds at most about twice the live rows.

    Examples
    --------
    >>> from unskew.hashing import hash_keys
    >>> from unskew.state import MemoryStore
    >>> store, schemas = MemoryStore(), (pa.schema({"user": pa.string()}), pa.schema({"n": pa.int64()}))
    >>> rows = pa.table({"user": ["ada", "bob", "ada"]})
    >>> with KeyedState.open(store, *schemas, slots=16) as state:
    ...     groups = state.group(rows, hash_keys(rows, "user"))
    ...     state.put(groups, pa.table({"n": groups.counts}))
    ...     state.commit("first")
    >>> with KeyedState.open(store, *schemas, slots=16) as state:
    ...     values, exists = state.get(groups)
    >>> values["n"].to_pylist(), exists.tolist()
    ([2, 1], [True, True])
    """

    def __init__(
        self, manifest: Manifest, log: ChunkLog, index: KeyIndex, layout: Layout, memory_bytes: int | None, found: Found
    ) -> None:
        super().__init__(log, index)
        self._manifest, self._layout, self._memory_bytes = manifest, layout, memory_bytes
        self.found = found  # what there was to begin with
        self._shared = set(manifest.shared)

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
        layout: Layout | None = None,
        memory_bytes: int | None = None,
    ) -> KeyedState:
        """Open the state as the store has it.

        Parameters
        ----------
        store
            The durable side.
        key_schema, value_schema
            The columns. A store written with others raises `CheckpointError`.
        slots
            Number of slots; key k lies in slot ``hash(k) mod slots``.
        deadline
            Name of the int64 value column that `due` reads.
        cache
            Where this channel's local copy lies. Without one, everything is read from the store into memory.
        layout
            Sizes of chunks and when to clean them.
        memory_bytes
            Size of the rows that the local copy may hold; defaults to what the cache has room for. Beyond it, the rows
            put least recently stay only in the store and are read from there when needed.
        """
        columns = Columns.of(key_schema, value_schema)
        kinds = dict(zip(columns.values.names, columns.values.types, strict=True))
        if deadline is not None and kinds.get(deadline) != pa.int64():
            raise ArgumentError("the deadline must be an int64 column of the state", got=deadline)
        manifest = manifest_in(store, columns)
        entry: Entry = Entry() if cache is None else cache.take(manifest.nonce)
        log = ChunkLog(store, entry, columns, manifest, deadline)
        try:
            index, found = recover_index(log, manifest, slots)
        except BaseException:
            entry.discard()
            raise
        return cls(manifest, log, index, layout or Layout.within(memory_bytes), memory_bytes, found)

    @property
    def spilled_bytes(self) -> Numbers:
        """Bytes of each slot that `memory_bytes` leaves no room for, int64[slots]; one pass over the index if any."""
        index, slots = self._index, len(self.slot_bytes)
        if self._memory_bytes is None or self.bytes <= self._memory_bytes:
            return np.zeros(slots, np.int64)
        hashes, positions = index.outside(np.array([chunk.sequence for chunk in self._resident()], np.int64))
        return np.bincount(slot_of(hashes, slots), index.sizes(hashes, positions), slots).astype(np.int64)

    def put(self, groups: Groups, values: pa.Table, where: Mask | None = None) -> None:
        """Set the values of groups: all, or those for which `where` holds. `values` has one row for every group."""
        if values.num_rows != len(groups):
            raise ArgumentError("there must be one row of values for every group", got=(values.num_rows, len(groups)))
        positions = self._locate(groups)[0].copy()
        rows = self._columns.make_rows(groups.hashes, groups.keys, values)
        chosen = np.arange(len(groups)) if where is None else np.flatnonzero(where)
        if len(chosen) < len(groups):
            rows = rows.take(pa.array(chosen))
        if not rows.num_rows:
            return
        hashes, sizes, old = groups.hashes[chosen], row_bytes(rows), positions[chosen]
        new = positions_of(self._log.append(rows), rows.num_rows)
        held, index = old != 0, self._index
        index.replace(hashes[held], old[held], new[held], sizes[held])
        self._log.outdate(old[held])
        shares = index.insert(hashes[~held], new[~held], sizes[~held])
        self._shared.update(hashes[~held][shares].tolist())
        positions[chosen] = new
        self._located = groups, positions, None

    def remove(self, groups: Groups, where: Mask | None = None) -> None:
        """Forget groups: all, or those for which `where` holds. Keys that are not held are passed over."""
        positions, _ = self._locate(groups)
        held = positions != 0
        chosen = np.flatnonzero(held if where is None else held & where)
        self._forget(groups.hashes[chosen], positions[chosen], groups.keys.take(pa.array(chosen)))

    def due(self, until_ms: int) -> Groups:
        """Return the keys held whose `deadline` is at most `until_ms`, as groups without rows.

        A null deadline is never due. Costs what is due, and a look at the deadlines of the chunks in which some row,
        live or not, has come due since the last call.
        """
        deadline = self._log.deadline
        if deadline is None:
            raise ArgumentError("this state was opened without a deadline", hint="name the column that holds it")
        index, found = self._index, [self._columns.rows.empty_table()]
        for chunk in self._log:
            if chunk.earliest is None or chunk.earliest > until_ms or chunk.live == 0:
                continue
            rows = self._log.batch(chunk)
            column = rows.column(VALUE_PREFIX + deadline)
            deadlines = column.fill_null(np.iinfo(np.int64).max).to_numpy()
            reached = np.flatnonzero((deadlines >= chunk.earliest) & (deadlines <= until_ms))
            positions = positions_of(chunk.sequence, chunk.rows)[reached]
            reached = reached[index.is_live(hashes_of(rows)[reached], positions)]
            found.append(pa.Table.from_batches([rows.take(pa.array(reached))]))
            later = np.append(deadlines[deadlines > until_ms], deadlines[reached])
            chunk.earliest = int(later.min()) if len(later) else None
        rows = pa.concat_tables(found).combine_chunks()
        return Groups(hashes_of(rows), self._columns.keys_in(rows), np.empty(0, np.int64))

    def extract(self, hashes: ArrayLike = (), slots: ArrayLike = (), *, keep: ArrayLike = ()) -> pa.Table:
        """Remove what `select` returns, and return it."""
        found, positions = self._positions(hashes, slots, keep)
        rows = self._log.gather(positions)
        self._forget(found, positions, self._columns.keys_in(rows))
        return rows

    def install(self, rows: pa.Table) -> None:
        """Take in what `extract` gave on another channel; a key that is held already raises `StateError`."""
        groups, values = self.group_stored(rows)
        if len(groups) < rows.num_rows:
            raise StateError("a key stands twice in the rows to install", got=rows.num_rows - len(groups))
        _, exists = self.get(groups)
        if exists.any():
            first = groups.keys.slice(int(np.argmax(exists)), 1).to_pylist()[0]
            raise StateError("a key to install is held already", got=first)
        self.put(groups, values)

    def commit(self, nonce: str) -> None:
        """Write what has changed to the store, publish the local copy, and close: `flush`, then `publish`."""
        self.flush(nonce)
        self.publish()

    def flush(self, nonce: str) -> None:
        """Write what has changed to the store.

        Writes the rows that changed, and on average a few times as many that are merged or cleaned; nothing if nothing
        changed. Afterwards the state may be read, not changed. The `nonce` is a text of letters, digits, ``-`` and
        ``_`` that no other attempt at any batch of this channel uses.
        """
        if not _NONCE.fullmatch(nonce):
            raise ArgumentError("a nonce consists of at most 100 letters, digits, - and _", got=nonce)
        index, log, store = self._index, self._log, self._log.store
        self._located = None
        if not log.segments and not log.removed:
            return
        before = {chunk.sequence for chunk in log.chunks}
        compaction = Compaction(log, index, self._layout, self._manifest.cleaned)
        for chunk, rows in compaction.run(nonce):
            store.write_chunk(chunk.sequence, *stored(rows, chunk.removed, len(index.slot_rows)))
            log.entry.write_chunk(chunk.name, rows)
        for sequence in sorted(before - {chunk.sequence for chunk in log.chunks}):
            store.remove_chunk(sequence)
        self._manifest = replace(
            self._manifest,
            nonce=nonce,
            history=self._manifest.commits,
            chunks=tuple(replace(chunk) for chunk in log.chunks),
            cleaned=compaction.cleaned,
            next_sequence=log.next_sequence,
            rows=index.rows,
            shared=tuple(sorted(self._shared)),
        )
        store.write_manifest(self._manifest.to_bytes())

    def publish(self) -> None:
        """Let the next task on this machine find the local copy, and close."""
        self._check_open()
        self._log.entry.keep_chunks({chunk.name for chunk in self._resident()})
        self._closed = True
        self._log.entry.publish(self._manifest)

    def release(self) -> None:
        """Give the local copy back as it was found, and close; for those who only read."""
        if self._log.segments or self._log.removed:
            raise StateError("this state has been changed", hint="commit it, or close it")
        self.publish()

    def _resident(self) -> list[Chunk]:
        """Return the chunks that the local copy may hold: the newest, as far as their live rows fit."""
        chunks = list(self._log)
        if self._memory_bytes is None:
            return chunks
        mean_bytes = self.bytes / max(1, self.rows)
        sizes = accumulate(chunk.live * mean_bytes for chunk in reversed(chunks))
        return [chunk for chunk, size in zip(reversed(chunks), sizes, strict=True) if size <= self._memory_bytes]

    def _forget(self, hashes: Hashes, positions: Hashes, keys: pa.Table) -> None:
        self._index.delete(hashes, positions)
        if len(hashes):
            self._log.bury(hashes, positions, keys)
        self._located = None
