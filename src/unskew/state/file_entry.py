"""A working copy in a folder of its own: arrays and chunks as memory-mapped files."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import shutil
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.errors import CheckpointError
from unskew.state.manifest import Manifest

if TYPE_CHECKING:
    from unskew.state.cache import CachePlace

Numbers = NDArray[np.int64]

_LOCK, _MANIFEST, _SUFFIX = "lock", "manifest", ".arrow"
_SECONDS_TO_LOCK = 60.0


class FileEntry:
    """A working copy that outlives the process: taken by renaming its folder, given back by renaming it again.

    While it is ours the folder has a private name and a lock that ends with the process, so that others can tell
    what has been left behind. Failures of the file system make it forgetful, never wrong: what cannot be kept
    on disk is kept in memory or read from the store, and such a copy is not published.
    """

    def __init__(self, folder: str, place: CachePlace, lock: int | None) -> None:
        self._folder, self._place, self._lock = folder, place, lock
        self._sound = lock is not None
        self._process = os.getpid()
        self._opened: dict[str, pa.RecordBatch] = {}
        self._names = set(os.listdir(folder)) if self._sound else set()
        self._written = 0
        self.manifest = self._read_manifest()

    @classmethod
    def created(cls, folder: str, place: CachePlace) -> FileEntry:
        """Make an empty copy; in memory if somebody takes the folder for abandoned before it is locked."""
        lock = None
        try:
            os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
            os.mkdir(folder, mode=0o700)
            lock = _locked(folder)
            return cls(folder, place, lock)
        except OSError:
            if lock is not None:
                os.close(lock)
            return cls(folder, place, None)

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
        return np.zeros(length, np.int64)

    def load(self, name: str) -> Numbers | None:
        with contextlib.suppress(OSError, ValueError):
            return _mapped(self._path(name))
        return None

    def read_chunk(self, name: str) -> pa.RecordBatch | None:
        """Return a chunk without copying it, None if it is not here."""
        if name not in self._opened and name + _SUFFIX in self._names:
            try:
                with pa.memory_map(self._path(name + _SUFFIX)) as source:
                    self._opened[name] = pa.ipc.open_stream(source).read_next_batch()
            except (OSError, pa.ArrowException, StopIteration):
                self._names.discard(name + _SUFFIX)
        return self._opened.get(name)

    def write_chunk(self, name: str, chunk: pa.RecordBatch) -> None:
        """Keep a chunk, unless the budget of the whole cache is used up by this copy alone."""
        self._written += chunk.nbytes
        if not self._sound or self._written > self._place.cache.budget_bytes:
            return
        path = self._path(name + _SUFFIX)
        try:
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, chunk.schema) as writer:
                writer.write_batch(chunk)
            self._names.add(name + _SUFFIX)
        except OSError:
            _unlink(path)

    def keep_chunks(self, names: Collection[str]) -> None:
        kept = {name + _SUFFIX for name in names}
        for name in [name for name in self._names if name.endswith(_SUFFIX) and name not in kept]:
            self._drop(name)

    def publish(self, manifest: Manifest) -> None:
        try:
            with open(self._path(_MANIFEST), "wb") as file:
                file.write(manifest.to_bytes())
            size = self._shrunk()
            if size is None:
                self.discard()
                return
            published = self._place.published(size, manifest.nonce)
            os.rename(self._folder, published)
            self._release()
            self._place.tidy(published, size)
        except OSError:
            self.discard()

    def discard(self) -> None:
        if self._lock is not None and self._process == os.getpid():  # a forked child inherits it
            shutil.rmtree(self._folder, ignore_errors=True)
            self._release()

    def _shrunk(self) -> int | None:
        """Give up chunks, oldest first, until there is room; returns the size, None if the rest is too large anyway."""
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
        self._opened.pop(name.removesuffix(_SUFFIX), None)
        self._names.discard(name)
        _unlink(self._path(name))

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _read_manifest(self) -> Manifest | None:
        with contextlib.suppress(OSError, CheckpointError), open(self._path(_MANIFEST), "rb") as file:
            return Manifest.from_bytes(file.read())
        return None

    def _release(self) -> None:
        self._opened.clear()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.discard()


def has_chunks(folder: str, manifest: Manifest) -> bool:
    """Tell whether a copy has all chunks of a commit."""
    return all(os.path.exists(f"{folder}/{chunk.name}{_SUFFIX}") for chunk in manifest.chunks)


def is_abandoned(folder: str) -> bool:
    """Tell whether the process that had a private folder is gone."""
    try:
        lock = _locked(folder)
    except BlockingIOError:
        return False
    except OSError:  # not locked yet, or gone already
        with contextlib.suppress(OSError):
            return time.time() - os.stat(folder).st_mtime > _SECONDS_TO_LOCK
        return False
    os.close(lock)
    return True


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
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
