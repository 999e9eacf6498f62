"""Durable files that the driver and the tasks both reach."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from unskew.errors import CheckpointError
from unskew.state.arrow_place import NO_EXCLUSIVE_CREATE, located
from unskew.state.local_disk import SCRATCH
from unskew.state.place import Place, reach

__all__ = ["ROLL_BYTES", "Files", "Piece", "PieceWriter", "located"]

ROLL_BYTES = 1 << 20
ALIGNMENT = 64  # Arrow reads numbers in place only if they are aligned
TRIES = 4
FIRST_WAIT_SECONDS = 0.05
LOST = "restore the checkpoint from a copy, or start the query with a new one"
UNREACHABLE = "check that the place can be reached and written to, and that its disk is not full"


@dataclass(frozen=True)
class Piece:
    """A range of a file, and the CRC-32 of what is in it."""

    file: str
    offset: int
    length: int
    checksum: int


@dataclass(frozen=True)
class Files:
    """Durable files below a root. A plain value: each process that uses it opens the filesystem itself.

    Names are relative to the root, with slashes between folders; folders come with their first file. What a method has
    written survives a power failure once it returns. Every failure is a `CheckpointError` that names the full path.
    """

    root: str  # a path or a URI as Hadoop writes it: /ck/unskew, file:/ck/unskew, s3a://bucket/ck/unskew

    def child(self, name: str) -> Files:
        return Files(self._full(name))

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that must not exist yet; of several callers at once, one succeeds.

        Returns whether the file now holds `data`, even if a try that seemed to fail, as after a time-out, wrote it.
        """
        failure: OSError | None = None
        for number in range(TRIES):
            if number:
                time.sleep(FIRST_WAIT_SECONDS * 2 ** (number - 1))
            try:
                if self._place.create(name, data):
                    return True
            except OSError as error:
                failure = error
                continue
            found = self.read_or_none(name)
            if found is not None:
                return found == data
        raise self._failed("created", name, failure or "it exists but cannot be read", UNREACHABLE)

    def write(self, name: str, data: bytes) -> None:
        """Write a file whose name nobody else uses."""
        with self._explaining("written", name, UNREACHABLE):
            self._place.write(name, data)

    def replace(self, name: str, data: bytes) -> None:
        """Overwrite a small file. Readers see the old contents or the new ones."""
        with self._explaining("written", name, UNREACHABLE):
            self._place.replace(name, data)

    def read(self, name: str) -> bytes:
        with self._explaining("read", name, LOST):
            return self._place.read(name)

    def read_or_none(self, name: str) -> bytes | None:
        with self._explaining("read", name, LOST):
            try:
                return self._place.read(name)
            except FileNotFoundError:
                return None

    def read_piece(self, piece: Piece) -> pa.Buffer:
        """Return a piece after checking its length and checksum, without reading the rest of the file."""
        return self.read_pieces([piece])

    def read_pieces(self, pieces: Sequence[Piece]) -> pa.Buffer:
        """Return pieces that lie side by side in one file, in order, with a single read; each is checked."""
        file, offset, length = pieces[0].file, pieces[0].offset, sum(piece.length for piece in pieces)
        with self._explaining("read", file, LOST):
            data = self._place.read_range(file, offset, length)
        if data.size != length:
            where = f"{self._full(file)}, bytes {offset} to {offset + length}"
            raise CheckpointError(f"the file has {data.size} of {length} bytes", where=where, hint=LOST)
        for piece in pieces:
            if zlib.crc32(data.slice(piece.offset - offset, piece.length)) != piece.checksum:
                where = f"{self._full(file)}, bytes {piece.offset} to {piece.offset + piece.length}"
                raise CheckpointError("the bytes do not match their checksum", where=where, hint=LOST)
        return data

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; none if the folder does not exist."""
        with self._explaining("listed", folder, UNREACHABLE):
            return sorted(name for name in self._place.names(folder) if not name.startswith(SCRATCH))

    def exists(self, name: str) -> bool:
        with self._explaining("looked for", name, UNREACHABLE):
            return self._place.exists(name)

    def remove(self, name: str) -> None:
        with self._explaining("removed", name, UNREACHABLE):
            self._place.remove(name)

    def remove_folder(self, name: str) -> None:
        """Remove a folder and all that is in it, if it exists."""
        with self._explaining("removed", name, UNREACHABLE):
            self._place.remove_folder(name)

    def probe(self) -> None:
        """Check that this place refuses to create a file twice. Otherwise, two drivers could both go on."""
        name = f"{SCRATCH}{uuid4().hex}"
        first = self.create(name, b"first")
        try:
            refused = first and not self.create(name, b"second")
            kept = refused and self.read(name) == b"first"
        finally:
            self.remove(name)
        if not kept:
            what = "this place lets a file be created twice, so it cannot keep two drivers apart"
            raise CheckpointError(what, where=self.root, hint=NO_EXCLUSIVE_CREATE)

    def enclosed(self, pieces: Iterable[Piece]) -> Mapping[Piece, bytes]:
        """Return those of some pieces that the driver must send to tasks; none where tasks read for themselves."""
        return {}

    def take_in(self, name: str, offset: int, data: bytes | pa.Buffer) -> None:
        """Keep a part of a file that was sent to a task."""
        raise NotImplementedError("tasks read for themselves here")

    def leaving(self) -> Iterable[tuple[str, bytes]]:
        """Return what a task has written and the driver must `deliver`; nothing where tasks write for themselves."""
        return ()

    def deliver(self, written: Iterable[tuple[str, bytes]], manifests: Iterable[Piece]) -> None:
        """Write durably what left tasks; the next batch begins by reading `manifests`."""
        for name, data in written:
            self.write(name, data)

    @property
    def _place(self) -> Place:
        return reach(self.root)

    def _full(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/{name}" if name else self.root

    @contextmanager
    def _explaining(self, done: str, name: str, hint: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if isinstance(error, FileNotFoundError) and done == "read":
                raise CheckpointError("the file does not exist", where=self._full(name), hint=hint) from None
            raise self._failed(done, name, error, hint) from error

    def _failed(self, done: str, name: str, reason: object, hint: str) -> CheckpointError:
        return CheckpointError(f"the file cannot be {done}: {reason}", where=self._full(name), hint=hint)


class PieceWriter:
    """Writes many small pieces into few files, because every file costs a sync, or money.

    Files are called ``{folder}/{name}-{k}.arrow``; a new one begins once the current one holds `ROLL_BYTES`. Pieces
    begin at multiples of 64, so that Arrow can read them in place. A piece may be read after `close`, or after the
    ``with`` block if no exception left it.
    """

    def __init__(self, files: Files, folder: str, name: str) -> None:
        self._files, self._start = files, f"{folder}/{name}"
        self._parts: list[bytes | pa.Buffer] = []
        self._size = 0
        self.files_written: list[str] = []

    def write(self, data: bytes | pa.Buffer) -> Piece:
        """Add a piece and return where it will be."""
        length = memoryview(data).nbytes
        piece = Piece(self._current, self._size, length, zlib.crc32(data))
        padding = bytes(-length % ALIGNMENT)
        self._parts += [data, padding]
        self._size += length + len(padding)
        if self._size >= ROLL_BYTES:
            self.close()
        return piece

    def close(self) -> None:
        """Write what is not yet written. Afterwards all pieces are durable."""
        if self._parts:
            self._files.write(self._current, b"".join(self._parts))
            self.files_written.append(self._current)
            self._parts, self._size = [], 0

    @property
    def _current(self) -> str:
        return f"{self._start}-{len(self.files_written)}.arrow"

    def __enter__(self) -> PieceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
