"""Where a task finds the state of a channel."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from unskew.operators import Operator
from unskew.runtime.orders import Order
from unskew.state.cache import LocalCache
from unskew.state.files import Files, PieceWriter
from unskew.state.keyed_state import KeyedState
from unskew.state.piece_store import PieceStore


@dataclass(frozen=True)
class Site:
    """Opens the state of channels, in any task.

    Parameters
    ----------
    files
        Where the durable state lies.
    query
        A name that no other query has; local copies are kept under it.
    operator
        Whose state it is.
    slots
        Slots of the routing table.
    cache_bytes
        Budget of the local copies on a machine. 0 keeps none.
    cache_folder
        Where they lie; Spark's local directory, or the system's temporary one, where not given.
    """

    files: Files
    query: str
    operator: Operator
    slots: int
    cache_bytes: int
    cache_folder: str | None = None

    def open(self, order: Order, writer: PieceWriter | None = None) -> tuple[KeyedState, PieceStore]:
        """Return a channel's state as the last record has it, and the store that new pieces go to."""
        if order.manifest is not None and order.enclosed:
            self.files.take_in(order.manifest.file, order.manifest.offset, order.enclosed)
        store, operator = PieceStore(self.files, order.manifest, writer), self.operator
        state = KeyedState.open(
            store,
            operator.key_schema,
            operator.value_schema,
            slots=self.slots,
            deadline=operator.deadline,
            cache=self._cache().place(self.query, order.channel) if self.cache_bytes else None,
            memory_bytes=order.memory_bytes,
        )
        return state, store

    def _cache(self) -> LocalCache:
        return LocalCache(Path(self.cache_folder or local_folder()), self.cache_bytes)


def local_folder() -> str:
    """Return the folder of local copies that all Python workers of this machine and user share."""
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    return str(Path(local) / f"unskew-state-{os.getuid()}")
