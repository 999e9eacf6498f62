"""The working copy of a channel's state: its index and its chunks, in memory or as memory-mapped files."""

from __future__ import annotations

import fcntl
import mmap
import os
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from unskew.errors import CheckpointError
from unskew.state.groups import Numbers
from unskew.state.manifest import Manifest

if TYPE_CHECKING:
    from unskew.state.cache import CachePlace

_LOCK, _MANIFEST, _SUFFIX = "lock", "manifest", ".arrow"
_SECONDS_TO_LOCK = 60.0


class Entry:
    """A working copy in memory, private to one attempt. Correctness never depends on it: it may lose any chunk."""

    manifest: Manifest | None = None  # the commit that the arrays describe; None if they describe none

    def __init__(self) -> None:
        self._chunks: dict[str, pa.RecordBatch] = {}

    def allocate(self, name: str, length: int) -> Numbers:
        """Return a new array of zeros and keep it under a name."""
        return np.zeros(length, np.int64)

    def load(self, name: str) -> Numbers | None:
        """Return the array kept under a name."""

    def read_chunk(self, name: str) -> pa.RecordBatch | None:
        """Return a chunk, None if it is not here."""
        return self._chunks.get(name)

    def write_chunk(self, name: str, chunk: pa.RecordBatch) -> None:
        """Keep a chunk if there is room for it."""
        self._chunks[name] = chunk

    def keep_chunks(self, names: Collection[str]) -> None:
        """Forget all other chunks."""

    def publish(self, manifest: Manifest) -> None:
        """Hand this copy, now of that commit, to the next attempt."""

    def discard(self) -> None:
        """Throw the copy away, unless it has been published."""


class FileEntry(Entry):
    """A working copy that outlives the process: an attempt takes its folder by renaming it, and gives it back likewise.

    While it is ours, the folder has a private name and a lock that ends with the process, so that others can tell
    what has been left behind. A failing file system makes it forgetful, never wrong: what cannot be kept on disk is
    kept in memory or read from the store, and such a copy is not published. Without a lock it keeps nothing.
    """

    def __init__(self, folder: str, place: CachePlace, lock: int | None) -> None:
        super().__init__()
        self._folder, self._place, self._lock = folder, place, lock
        self._sound = lock is not None
        self._process = os.getpid()
        self._written = 0
        with suppress(OSError, CheckpointError), open(self._path(_MANIFEST), "rb") as file:
            self.manifest = Manifest.from_bytes(file.read())

    @classmethod
    def created(cls, folder: str, place: CachePlace) -> FileEntry:
        """Make an empty copy. It keeps nothing if somebody takes the folder for abandoned before it is locked."""
        try:
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            os.mkdir(folder, mode=0o700)
        except OSError:
            return cls(folder, place, None)
        return cls.taken(folder, folder, place) or cls(folder, place, None)

    @classmethod
    def taken(cls, published: str, folder: str, place: CachePlace) -> FileEntry | None:
        """Take a copy that somebody has published; None if another attempt was quicker."""
        lock = None
        try:
            lock = _locked(published)
            os.rename(published, folder)
            return cls(folder, place, lock)
        except OSError:
            if lock is not None:
                os.close(lock)
            return None

    def allocate(self, name: str, length: int) -> Numbers:
        if self._sound:
            try:
                return _new_array(self._path(name), length)
            except OSError:  # a full disk, mostly
                self._sound = False
        return super().allocate(name, length)

    def load(self, name: str) -> Numbers | None:
        with suppress(OSError, ValueError):
            return _mapped(self._path(name))
        return None

    def read_chunk(self, name: str) -> pa.RecordBatch | None:
        if name not in self._chunks:
            path = self._path(name + _SUFFIX)
            with suppress(OSError, pa.ArrowException, StopIteration), pa.memory_map(path) as source:
                self._chunks[name] = pa.ipc.open_stream(source).read_next_batch()
        return self._chunks.get(name)

    def write_chunk(self, name: str, chunk: pa.RecordBatch) -> None:
        """Keep a chunk, unless this copy alone uses up the budget of the whole cache."""
        self._written += chunk.nbytes
        if not self._sound or self._written > self._place.cache.budget_bytes:
            return
        path = self._path(name + _SUFFIX)
        try:
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, chunk.schema) as writer:
                writer.write_batch(chunk)
        except OSError:
            _unlink(path)

    def keep_chunks(self, names: Collection[str]) -> None:
        present: list[str] = []
        with suppress(OSError):  # a copy that could not be made on disk is in memory
            present = os.listdir(self._folder)
        for name in present:
            if name.endswith(_SUFFIX) and name.removesuffix(_SUFFIX) not in names:
                self._drop(name)

    def publish(self, manifest: Manifest) -> None:
        try:
            with open(self._path(_MANIFEST), "wb") as file:
                file.write(manifest.to_bytes())
            size = self._shrink()
            if size is not None:
                published = self._place.published(size, manifest.nonce)
                os.rename(self._folder, published)
                self._release()
                self._place.tidy(published, size)
        except OSError:
            pass
        self.discard()  # does nothing once it is published

    def discard(self) -> None:
        if self._lock is not None and self._process == os.getpid():  # a forked child inherits it
            shutil.rmtree(self._folder, ignore_errors=True)
            self._release()

    def _shrink(self) -> int | None:
        """Drop chunks, oldest first, until the copy fits; returns its size, None if the rest is too large anyway."""
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self._folder)}
        size = sum(sizes.values())
        room = self._place.room(self._folder, size)
        chunks = [name for name in sizes if name.endswith(_SUFFIX)]
        for name in sorted(chunks, key=lambda name: int(name.partition("-")[0])):
            if size <= room:
                break
            self._drop(name)
            size -= sizes[name]
        return size if self._sound and size <= room else None

    def _drop(self, name: str) -> None:
        self._chunks.pop(name.removesuffix(_SUFFIX), None)
        _unlink(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _release(self) -> None:
        self._chunks.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.discard()


def has_chunks(folder: str, manifest: Manifest) -> bool:
    """Tell whether a copy has all chunks of a commit."""
    return all(os.path.exists(f"{folder}/{chunk.name}{_SUFFIX}") for chunk in manifest.chunks)


def is_abandoned(folder: str) -> bool:
    """Tell whether the process that had a private folder is gone."""
    try:
        os.close(_locked(folder))
        return True
    except BlockingIOError:
        return False
    except OSError:  # not locked yet, or gone already
        with suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > _SECONDS_TO_LOCK
        return False


def _locked(folder: str) -> int:
    lock = os.open(f"{folder}/{_LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        raise
    return lock


def _new_array(path: str, length: int) -> Numbers:
    draft = path + ".new"
    with open(draft, "wb") as file:
        # claims the blocks now: running out of them while writing to mapped memory would kill the process
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, length * 8)
        else:
            file.write(bytes(length * 8))
    os.rename(draft, path)
    return _mapped(path)


def _mapped(path: str) -> Numbers:
    with open(path, "r+b") as file:
        return np.frombuffer(mmap.mmap(file.fileno(), 0), np.int64)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)
