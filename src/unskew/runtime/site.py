"""Where a task finds the state of a channel."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import dataclass
from pathlib import Path

from unskew.operators import Operator
from unskew.runtime.orders import Order
from unskew.state.cache import CachePlace, LocalCache
from unskew.state.files import Files, PieceWriter
from unskew.state.keyed_state import KeyedState
from unskew.state.manifest import Manifest
from unskew.state.piece_store import PieceStore
from unskew.state.some_slots import view_of_slots
from unskew.state.view import StateView


@dataclass(frozen=True)
class Site:
    """Opens the state of channels, in any task."""

    files: Files
    query: str  # a name that no other query has; local copies are kept under it
    operator: Operator
    slots: int
    cache_bytes: int  # budget of the local copies on a machine; 0 keeps none
    cache_folder: str | None = None  # defaults to `local_folder`

    def open(self, order: Order, writer: PieceWriter | None = None) -> tuple[KeyedState, PieceStore]:
        """Return a channel's state as the last record has it, and the store that new pieces go to."""
        store = self._store(order, writer)
        return self._opened(store, order), store

    def view(self, order: Order) -> StateView:
        """Return the state that leaves a channel, from the local copy if it is up to date, else from the checkpoint."""
        store, copy = self._store(order), self._copy(order)
        manifest = store.read_manifest()
        if copy is not None and manifest is not None and copy.holds(Manifest.from_bytes(manifest)):
            return self._opened(store, order)
        keys, values = self.operator.key_schema, self.operator.value_schema
        return view_of_slots(store, keys, values, order.leaving_slots(self.slots))

    def _store(self, order: Order, writer: PieceWriter | None = None) -> PieceStore:
        if order.manifest is not None and order.enclosed:
            self.files.take_in(order.manifest.file, order.manifest.offset, order.enclosed)
        return PieceStore(self.files, order.manifest, writer)

    def _opened(self, store: PieceStore, order: Order) -> KeyedState:
        operator = self.operator
        return KeyedState.open(
            store,
            operator.key_schema,
            operator.value_schema,
            slots=self.slots,
            deadline=operator.deadline,
            cache=self._copy(order),
            memory_bytes=order.memory_bytes,
        )

    def _copy(self, order: Order) -> CachePlace | None:
        if not self.cache_bytes:
            return None
        return LocalCache(Path(self.cache_folder or local_folder()), self.cache_bytes).place(self.query, order.channel)


def local_place() -> str:
    """Return the place of this task's local copies, unique in the cluster: on Spark, the executor."""
    return f"{socket.gethostname()}:{local_folder()}"


def local_folder() -> str:
    """Return the folder of local copies, shared by all Python workers of this machine and user."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return str(Path(local) / f"unskew-state-{os.getuid()}")
