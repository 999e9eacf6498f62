"""Where a channel's state is kept for good: numbered chunks of bytes and one manifest."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import CheckpointError
from unskew.state.parts import Parts

Mask = NDArray[np.bool_]


class ChunkStore(Protocol):
    """The durable side of a `KeyedState`: in production files of the checkpoint, in tests a dictionary.

    All writes of a batch take effect together or not at all; reads see the writes of the same batch. Chunks are
    written once and never changed, only removed.
    """

    def read_manifest(self) -> bytes | None:
        """Return the manifest; None before the first commit."""

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest, at most a few kilobytes."""

    def read_chunk(self, sequence: int) -> bytes | pa.Buffer:
        """Return the chunk with this number; raises `CheckpointError` if there is none."""

    def read_parts(self, sequence: int, chosen: Mask) -> list[tuple[int, bytes | pa.Buffer]]:
        """Return the parts of a chunk that may hold rows of the chosen slots, in order, each with its first row."""

    def write_chunk(self, sequence: int, data: bytes, parts: Parts | None = None) -> None:
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
        self.parts: dict[int, Parts] = {}

    def copy(self) -> MemoryStore:
        """Return a store with the same contents: what an attempt works on until it succeeds."""
        copy = MemoryStore()
        copy.manifest, copy.chunks, copy.parts = self.manifest, dict(self.chunks), dict(self.parts)
        return copy

    def read_manifest(self) -> bytes | None:
        return self.manifest

    def write_manifest(self, data: bytes) -> None:
        self.manifest = bytes(data)

    def read_chunk(self, sequence: int) -> bytes:
        if sequence not in self.chunks:
            raise CheckpointError("a chunk of state is missing", got=sequence)
        return self.chunks[sequence]

    def read_parts(self, sequence: int, chosen: Mask) -> list[tuple[int, bytes | pa.Buffer]]:
        """Return the parts of a chunk that may hold rows of the chosen slots."""
        data, parts = self.read_chunk(sequence), self.parts.get(sequence)
        if parts is None:
            return [(0, data)]
        runs = parts.runs(chosen)
        return [(run[0].row, data[run[0].start : run[-1].start + run[-1].length]) for run in runs]

    def write_chunk(self, sequence: int, data: bytes, parts: Parts | None = None) -> None:
        self.chunks[sequence] = bytes(data)
        self.parts.pop(sequence, None)
        if parts is not None:
            self.parts[sequence] = parts

    def remove_chunk(self, sequence: int) -> None:
        del self.chunks[sequence]
        self.parts.pop(sequence, None)
