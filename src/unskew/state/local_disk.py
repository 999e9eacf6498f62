"""Durable files on a local disk, or on one that the system mounts like a local one."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa

SCRATCH = ".tmp-"  # prefix of names that nobody owns; a crash may leave one behind


@dataclass(frozen=True)
class LocalDisk:
    """A folder of a local disk, made when the first file is written.

    A file is forced to disk under a scratch name before it gets its own, so a name never shows half a file, not even
    after a power failure. A create costs a sync of the file and a sync of its folder.
    """

    folder: Path

    def create(self, name: str, data: bytes) -> bool:
        """Link the written file to its name, which the system refuses if the name is taken."""
        path = self.folder / name
        created = False
        if not path.exists():
            with suppress(FileExistsError), _scratch(path, data) as scratch:
                path.hardlink_to(scratch)
                created = True
        _sync_folder(path.parent)  # also if the file was there: it may be our own, from a try that failed half-way
        return created

    def write(self, name: str, data: bytes) -> None:
        """Write in place: nobody knows the name yet."""
        path = self.folder / name
        path.unlink(missing_ok=True)  # a reader may still hold an older file of this name
        _write(path, data)
        _sync_folder(path.parent)

    def replace(self, name: str, data: bytes) -> None:
        """Move the written file over its name."""
        path = self.folder / name
        with _scratch(path, data) as scratch:
            scratch.replace(path)
        _sync_folder(path.parent)

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def read_range(self, name: str, offset: int, length: int) -> pa.Buffer:
        """Read a part into memory of its own.

        A memory map could change after its checksum was verified, and would kill the process if a network filesystem
        lost the file.
        """
        buffer = pa.allocate_buffer(length)
        view, done = memoryview(buffer).cast("B"), 0
        file = os.open(self.folder / name, os.O_RDONLY)
        try:
            while done < length and (count := os.preadv(file, [view[done:]], offset + done)):
                done += count
        finally:
            os.close(file)
        return buffer.slice(0, done)

    def names(self, folder: str) -> list[str]:
        try:
            return [entry.name for entry in (self.folder / folder).iterdir()]
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        return (self.folder / name).is_file()

    def remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def remove_folder(self, name: str) -> None:
        """Remove a folder with all that is in it, also if somebody else removes it at the same time."""
        path = self.folder / name
        while path.exists():
            with suppress(FileNotFoundError):
                shutil.rmtree(path)


@contextmanager
def _scratch(path: Path, data: bytes) -> Iterator[Path]:
    """Write a scratch file beside a path; removes it at the end if it still has its name."""
    scratch = path.with_name(f"{SCRATCH}{uuid4().hex}")
    try:
        _write(scratch, data)
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        file = os.open(path, flags, 0o666)
    except FileNotFoundError:
        _make_folder(path.parent)
        file = os.open(path, flags, 0o666)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(file)


def _make_folder(folder: Path) -> None:
    if not folder.exists():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network filesystems do this on their own, and say so
            raise
    finally:
        os.close(file)
