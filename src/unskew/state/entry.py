"""The working copy of a channel's state: its index and its chunks, ready to be read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.state.manifest import Manifest

Numbers = NDArray[np.int64]


class Entry(Protocol):
    """A working copy, private to one attempt. Nothing in it is needed for correctness: it may lose any chunk."""

    manifest: Manifest | None
    """The commit whose state the arrays describe; None if they describe none."""

    def allocate(self, name: str, length: int) -> Numbers:
        """Return a new array of zeros and keep it under a name."""

    def load(self, name: str) -> Numbers | None:
        """Return the array kept under a name."""

    def read_chunk(self, name: str) -> pa.RecordBatch | None:
        """Return a chunk, None if it is not here."""

    def write_chunk(self, name: str, chunk: pa.RecordBatch) -> None:
        """Keep a chunk if there is room for it."""

    def keep_chunks(self, names: Collection[str]) -> None:
        """Forget all other chunks."""

    def publish(self, manifest: Manifest) -> None:
        """Let the next attempt find this copy, which is now of that commit; it is no longer ours."""

    def discard(self) -> None:
        """Throw the copy away, unless it has been published."""


class MemoryEntry:
    """A working copy in the memory of this process, gone with it."""

    def __init__(self) -> None:
        self.manifest: Manifest | None = None
        self._arrays: dict[str, Numbers] = {}
        self._chunks: dict[str, pa.RecordBatch] = {}

    def allocate(self, name: str, length: int) -> Numbers:
        self._arrays[name] = np.zeros(length, np.int64)
        return self._arrays[name]

    def load(self, name: str) -> Numbers | None:
        return self._arrays.get(name)

    def read_chunk(self, name: str) -> pa.RecordBatch | None:
        return self._chunks.get(name)

    def write_chunk(self, name: str, chunk: pa.RecordBatch) -> None:
        self._chunks[name] = chunk

    def keep_chunks(self, names: Collection[str]) -> None:
        self._chunks = {name: chunk for name, chunk in self._chunks.items() if name in names}

    def publish(self, manifest: Manifest) -> None:
        """Do nothing: nobody else can see this copy."""

    def discard(self) -> None:
        """Do nothing: the copy goes with the process."""
