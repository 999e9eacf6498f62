"""Where a channel's state is kept for good: numbered chunks of bytes and one manifest."""

from __future__ import annotations

from typing import Protocol

from unskew.errors import CheckpointError


class ChunkStore(Protocol):
    """The durable side of a `KeyedState`: in production Spark's state store, in tests a dictionary.

    All writes of a batch take effect together or not at all; reads see the writes of the same batch. Chunks are
    written once and never changed, only removed.
    """

    def read_manifest(self) -> bytes | None:
        """Return the manifest; None before the first commit."""

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest, at most a few kilobytes."""

    def read_chunk(self, sequence: int) -> bytes:
        """Return the chunk with this number; raises `CheckpointError` if there is none."""

    def write_chunk(self, sequence: int, data: bytes) -> None:
        """Keep a chunk under a number; what an attempt that came to nothing may have left there is replaced."""

    def remove_chunk(self, sequence: int) -> None:
        """Forget a chunk."""


class MemoryStore:
    """A `ChunkStore` in a dictionary.

    Examples
    --------
    >>> store = MemoryStore()
    >>> store.write_chunk(3, b"rows")
    >>> trial = store.copy()
    >>> trial.remove_chunk(3)
    >>> store.read_chunk(3), len(trial.chunks)
    (b'rows', 0)
    """

    def __init__(self) -> None:
        self.manifest: bytes | None = None
        self.chunks: dict[int, bytes] = {}

    def copy(self) -> MemoryStore:
        """Return a store with the same contents: what an attempt works on until it succeeds."""
        copy = MemoryStore()
        copy.manifest, copy.chunks = self.manifest, dict(self.chunks)
        return copy

    def read_manifest(self) -> bytes | None:
        """Return the manifest; None before the first commit."""
        return self.manifest

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest."""
        self.manifest = bytes(data)

    def read_chunk(self, sequence: int) -> bytes:
        """Return the chunk with this number."""
        if sequence not in self.chunks:
            raise CheckpointError("a chunk of state is missing", got=sequence)
        return self.chunks[sequence]

    def write_chunk(self, sequence: int, data: bytes) -> None:
        """Keep a chunk under a number."""
        self.chunks[sequence] = bytes(data)

    def remove_chunk(self, sequence: int) -> None:
        """Forget a chunk."""
        del self.chunks[sequence]
