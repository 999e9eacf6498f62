"""A channel's state as pieces of files in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from unskew.codec import dump, load
from unskew.errors import CheckpointError
from unskew.state.files import Files, Piece, PieceWriter
from unskew.state.groups import Mask
from unskew.state.parts import Parts


@dataclass(frozen=True)
class _Stored:
    """What a piece with a manifest holds."""

    manifest: bytes
    chunks: dict[int, Piece]  # where each chunk lies
    parts: dict[int, Parts] = field(default_factory=dict)  # of chunks with several


class PieceStore:
    """A `ChunkStore` that reads what one manifest names, and writes new pieces beside it.

    What it writes exists for nobody before a record names the new manifest. It never deletes anything. Without a
    writer, the state may only be read; without a manifest, it is empty.
    """

    def __init__(self, files: Files, manifest: Piece | None, writer: PieceWriter | None = None) -> None:
        self._files, self._writer, self.manifest = files, writer, manifest
        self._stored = _Stored(b"", {})
        if manifest is not None:
            data = bytes(files.read_piece(manifest))
            self._stored = load(_Stored, data, where=f"{files.root}/{manifest.file}")

    @property
    def pieces(self) -> tuple[Piece, ...]:
        return (*self._stored.chunks.values(), *([self.manifest] if self.manifest else []))

    @property
    def names(self) -> tuple[str, ...]:
        """The files that the state consists of, sorted."""
        return tuple(sorted({piece.file for piece in self.pieces}))

    def read_manifest(self) -> bytes | None:
        return self._stored.manifest or None

    def write_manifest(self, data: bytes) -> None:
        """Write a new manifest, with the places of all chunks."""
        self._stored = replace(self._stored, manifest=data)
        self.manifest = self._write(dump(self._stored))

    def read_chunk(self, sequence: int) -> pa.Buffer:
        return self._files.read_piece(self._piece(sequence))

    def read_parts(self, sequence: int, chosen: Mask) -> list[tuple[int, pa.Buffer]]:
        """Return the parts of a chunk that may hold rows of the chosen slots, in order, each with its first row."""
        whole, parts = self._piece(sequence), self._stored.parts.get(sequence)
        if parts is None:
            return [(0, self._files.read_piece(whole))]
        found = []
        for run in parts.runs(chosen):
            pieces = [Piece(whole.file, whole.offset + start, length, checksum) for _, start, length, checksum in run]
            found.append((run[0].row, self._files.read_pieces(pieces)))
        return found

    def write_chunk(self, sequence: int, data: bytes, parts: Parts | None = None) -> None:
        self._stored.chunks[sequence] = self._write(data)
        if parts is not None:
            self._stored.parts[sequence] = parts

    def remove_chunk(self, sequence: int) -> None:
        """Leave a chunk out of the next manifest. The piece stays for those who still name it."""
        del self._stored.chunks[sequence]
        self._stored.parts.pop(sequence, None)

    def _piece(self, sequence: int) -> Piece:
        if sequence not in self._stored.chunks:
            raise CheckpointError("a chunk of state is missing", got=sequence, hint="restore the checkpoint")
        return self._stored.chunks[sequence]

    def _write(self, data: bytes) -> Piece:
        assert self._writer is not None, "this state was opened for reading"
        return self._writer.write(data)
