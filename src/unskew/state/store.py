"""Where a channel's state is kept for good: numbered chunks of bytes and one manifest."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from unskew.errors import CheckpointError
from unskew.state.parts import Parts


class ChunkStore(Protocol):
    """The durable side of a `KeyedState`: in production files of the checkpoint, in tests a dictionary.

    All writes of a batch take effect together or not at all; reads see the writes of the same batch. Chunks are
    written once and never changed, only removed.
    """

    def read_manifest(self) -> bytes | None: ...  # None before the first commit
    def write_manifest(self, data: bytes) -> None: ...  # at most a few kilobytes
    def read_chunk(self, sequence: int) -> bytes | pa.Buffer: ...  # CheckpointError if there is none
    def write_chunk(self, sequence: int, data: bytes, parts: Parts | None = None) -> None: ...  # may overwrite
    def remove_chunk(self, sequence: int) -> None: ...


class MemoryStore:
    """A `ChunkStore` in a dictionary, for tests."""

    def __init__(self) -> None:
        self.manifest: bytes | None = None
        self.chunks: dict[int, bytes] = {}

    def copy(self) -> MemoryStore:
        """Return a store with the same contents, for an attempt that may fail."""
        copy = MemoryStore()
        copy.manifest, copy.chunks = self.manifest, dict(self.chunks)
        return copy

    def read_manifest(self) -> bytes | None:
        return self.manifest

    def write_manifest(self, data: bytes) -> None:
        self.manifest = bytes(data)

    def read_chunk(self, sequence: int) -> bytes:
        if sequence not in self.chunks:
            raise CheckpointError("a chunk of state is missing", got=sequence)
        return self.chunks[sequence]

    def write_chunk(self, sequence: int, data: bytes, parts: Parts | None = None) -> None:
        self.chunks[sequence] = bytes(data)

    def remove_chunk(self, sequence: int) -> None:
        del self.chunks[sequence]
