"""The cache of an executor: each channel's state as local memory-mapped files."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from unskew.errors import ArgumentError
from unskew.private import private_folder
from unskew.state.file_entry import FileEntry, has_chunks, is_abandoned
from unskew.state.manifest import Manifest

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SECONDS_TO_OUTLIVE = 3600.0
_SECONDS_TO_IDLE = 600.0
_SECONDS_BETWEEN_SWEEPS = 10.0
_PRIVATE, _TRASH = "~", "trash-"

_SWEPT: dict[Path, float] = {}  # when this process last swept each directory
_USED: dict[Path, int] = {}  # bytes in each directory at that time, and those that this process has published since


@dataclass(frozen=True)
class LocalCache:
    """Local copies of the state of channels, shared by all processes of a machine that use the same directory.

    An attempt takes an entry away before it changes it, and trusts it only if its nonce is the one that the store
    committed last; one that is behind catches up. Losing entries costs time, never correctness: every error of the file
    system counts as a loss, and so does a directory that another user owns or may write to. Nothing is forced to disk,
    so entries from before the machine's last start are not trusted.

    Beyond the budget, an entry larger than its fair share gives up its oldest chunks (they are read from the store when
    needed), then the least recently used entries go. Entries in use may exceed it for a while.
    """

    directory: Path  # on a local disk, not a network share; created if it does not exist
    budget_bytes: int

    def __post_init__(self) -> None:
        if self.budget_bytes < 0:
            raise ArgumentError("a cache cannot have a negative budget", got=self.budget_bytes)

    def place(self, checkpoint: str, channel: int) -> CachePlace:
        """Return the place of one channel of a checkpoint, which any unique text names."""
        return CachePlace(self, hashlib.sha256(checkpoint.encode()).hexdigest()[:16], channel)

    @property
    def folder(self) -> str:
        """Where the entries since the machine's last start lie, in one folder per channel."""
        return f"{self.directory}/boot-{_boot()}"

    def listing(self) -> Iterator[Listed]:
        with suppress(OSError):
            for name in os.listdir(self.folder):
                checkpoint, _, channel = name.partition(".")
                if channel.isdigit():
                    yield from CachePlace(self, checkpoint, int(channel)).listing()

    def sweep(self) -> None:
        """Remove what dead processes have left behind, and entries from before the machine's last start."""
        listing = list(self.listing())
        _USED[self.directory] = sum(listed.size for listed in listing)
        for listed in listing:
            if listed.private and is_abandoned(listed.path):
                _remove(listed.path)
        with suppress(OSError):
            for trash in Path(self.folder).glob(f"*/{_TRASH}*"):
                shutil.rmtree(trash, ignore_errors=True)
            for place in filter(_is_old, os.scandir(self.folder)):  # a new one is about to be used
                with suppress(OSError):
                    os.rmdir(place)  # succeeds only if it is empty
        with suppress(OSError):
            for folder in filter(_is_old, os.scandir(self.directory)):
                if folder.name.startswith("boot-") and folder.path != self.folder:
                    _remove(folder.path)

    def sweep_now_and_then(self) -> None:
        """Sweep, unless this process did so a moment ago."""
        if time.monotonic() - _SWEPT.get(self.directory, 0.0) > _SECONDS_BETWEEN_SWEEPS:
            _SWEPT[self.directory] = time.monotonic()
            self.sweep()

    def is_roomy(self, size: int) -> bool:
        """Tell whether so many bytes more leave half of the budget, as far as this process knows without looking."""
        return 2 * (_USED.get(self.directory, self.budget_bytes) + size) <= self.budget_bytes

    def evict(self, spare: str) -> None:
        """Remove entries that nobody uses, the least recently used first, until the budget holds."""
        listing = sorted(self.listing(), key=lambda listed: listed.used)
        excess = sum(listed.size for listed in listing) - self.budget_bytes
        for listed in listing:
            if excess > 0 and not listed.private and listed.path != spare:
                _remove(listed.path)
                excess -= listed.size


@dataclass(frozen=True)
class CachePlace:
    """Where the entries of one channel lie; an argument of `KeyedState.open`."""

    cache: LocalCache
    checkpoint: str
    channel: int

    def take(self, nonce: str) -> FileEntry:
        """Take this channel's entry away: that of the commit `nonce` if there is one, else an older, else a new one."""
        if not private_folder(self.cache.directory):  # somebody else could have put something there
            return FileEntry(self._private(0), self, None)
        self.cache.sweep_now_and_then()
        for listed in sorted(self._published(), key=lambda listed: (listed.nonce != nonce, -listed.used)):
            entry = FileEntry.taken(listed.path, self._private(listed.size), self)
            if entry is not None:
                return entry
        return FileEntry.created(self._private(0), self)

    def holds(self, manifest: Manifest) -> bool:
        """Tell whether an entry of this commit is there to be taken, with all chunks."""
        return any(each.nonce == manifest.nonce and has_chunks(each.path, manifest) for each in self._published())

    def published(self, size: int, nonce: str) -> str:
        return f"{self._folder}/{size}.{nonce}"

    def room(self, own: str, size: int) -> int:
        """Return the bytes that an entry may have: what others in use leave, or a fair share if that is more."""
        budget = self.cache.budget_bytes
        if self.cache.is_roomy(size):  # no need to look at the others
            return budget
        mine = {listed.path for listed in self._published()} | {own}
        others = [listed for listed in self.cache.listing() if listed.path not in mine]
        busy = [listed.size for listed in others if listed.private or time.time() - listed.used < _SECONDS_TO_IDLE]
        return max(budget // (len(busy) + 1), budget - sum(busy))

    def tidy(self, published: str, size: int) -> None:
        """Remove older entries of this channel, and others beyond the budget."""
        for listed in self._published():
            if listed.path != published:
                _remove(listed.path)
        if not self.cache.is_roomy(size):
            self.cache.evict(spare=published)
        _USED[self.cache.directory] = _USED.get(self.cache.directory, 0) + size

    def listing(self) -> Iterator[Listed]:
        found = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                size, _, nonce = entry.name.removeprefix(_PRIVATE).partition(".")
                with suppress(OSError):  # it may be gone
                    if size.isdigit():
                        private, used = entry.name.startswith(_PRIVATE), entry.stat().st_mtime
                        found.append(Listed(entry.path, private, self.channel, int(size), nonce, used))
        yield from found

    def _published(self) -> Iterator[Listed]:
        return (listed for listed in self.listing() if not listed.private)

    def _private(self, size: int) -> str:
        return f"{self._folder}/{_PRIVATE}{size}.{uuid4().hex}"

    @property
    def _folder(self) -> str:
        return f"{self.cache.folder}/{self.checkpoint}.{self.channel}"


class Listed(NamedTuple):
    """What the folder of an entry tells about it."""

    path: str
    private: bool
    channel: int
    size: int
    nonce: str
    used: float


@cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def _is_old(folder: os.DirEntry[str]) -> bool:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime > _SECONDS_TO_OUTLIVE
    return False


def _remove(path: str) -> None:
    """Remove a folder, so that nobody sees it half removed."""
    trash = f"{os.path.dirname(path)}/{_TRASH}{uuid4().hex}"
    with suppress(OSError):
        os.rename(path, trash)
        shutil.rmtree(trash, ignore_errors=True)
