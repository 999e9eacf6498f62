"""Spark's state store as the durable side of a channel's state."""

from __future__ import annotations

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from unskew.errors import CheckpointError

MANIFEST = -1


class SparkStore:
    """A `ChunkStore` in the state store of a running batch: a map of chunks by number, the manifest among them.

    Spark commits all of it with the batch, or nothing. Everything lies in one state variable because Spark prepares
    every variable anew in every task, which costs tens of milliseconds each.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._chunks = handle.getMapState("chunks", "sequence long", "data binary")

    def read_manifest(self) -> bytes | None:
        """Return the manifest; None before the first commit."""
        found = self._chunks.getValue((MANIFEST,))
        return None if found is None else bytes(found[0])

    def write_manifest(self, data: bytes) -> None:
        """Replace the manifest."""
        self.write_chunk(MANIFEST, data)

    def read_chunk(self, sequence: int) -> bytes:
        """Return the chunk with this number."""
        found = self._chunks.getValue((sequence,))
        if found is None:
            raise CheckpointError(
                "a chunk of state is missing", got=sequence, hint="restore the checkpoint from a copy"
            )
        return bytes(found[0])

    def write_chunk(self, sequence: int, data: bytes) -> None:
        """Keep a chunk under a number."""
        self._chunks.updateValue((sequence,), (data,))

    def remove_chunk(self, sequence: int) -> None:
        """Forget a chunk."""
        self._chunks.removeKey((sequence,))
