"""The cache of an executor: each channel's state as local memory-mapped files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from unskew.errors import ArgumentError
from unskew.state.file_entry import FileEntry, has_chunks, is_abandoned
from unskew.state.manifest import Manifest

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SECONDS_TO_OUTLIVE = 3600.0
_SECONDS_TO_IDLE = 600.0
_SECONDS_BETWEEN_SWEEPS = 10.0
_SWEPT: dict[Path, float] = {}
"""When this process last swept each directory."""
_USED: dict[Path, int] = {}
"""Bytes in each directory when this process last swept it, and those that it has published since."""

_PRIVATE, _TRASH = "~", "trash-"


@dataclass(frozen=True)
class LocalCache:
    """Local copies of the state of channels, shared by all processes of a machine that use the same directory.

    An entry is taken away before it is changed and trusted only if its nonce is the one that the store committed last;
    one that is behind catches up. Losing entries costs time, never correctness: every error of the file system
    is taken as a loss. Entries of an earlier start of the machine are not trusted: nothing is forced to disk.

    Parameters
    ----------
    directory
        Local disk (not a network share); made if it does not exist.
    budget_bytes
        Beyond it, an entry of more than its fair share gives up its oldest chunks (they are read from the store
        when needed), then the least recently used entries go. Entries in use may exceed it for a while.

    Examples
    --------
    >>> import tempfile
    >>> place = LocalCache(Path(tempfile.mkdtemp()), budget_bytes=1 << 30).place("checkpoints/clicks", channel=3)
    >>> entry = place.take(nonce="")
    >>> entry.manifest is None
    True
    """

    directory: Path
    budget_bytes: int

    def __post_init__(self) -> None:
        if self.budget_bytes < 0:
            raise ArgumentError("a cache cannot have a negative budget", got=self.budget_bytes)

    def place(self, checkpoint: str, channel: int) -> CachePlace:
        """Return the place of one channel of one checkpoint (any text that names it, its path for instance)."""
        return CachePlace(self, hashlib.sha256(checkpoint.encode()).hexdigest()[:16], channel)

    @property
    def folder(self) -> str:
        """Where the entries of this start of the machine lie, those of each channel in a folder of their own."""
        return f"{self.directory}/boot-{_boot()}"

    def listing(self) -> Iterator[Listed]:
        """Yield every entry."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self.folder):
                checkpoint, _, channel = name.partition(".")
                if channel.isdigit():
                    yield from CachePlace(self, checkpoint, int(channel)).listing()

    def sweep(self) -> None:
        """Remove what processes that died have left behind, and entries of earlier starts of the machine."""
        used = 0
        for listed in self.listing():
            used += listed.size
            if listed.private and is_abandoned(listed.path):
                remove(listed.path)
        _USED[self.directory] = used
        with contextlib.suppress(OSError):
            for trash in Path(self.folder).glob(f"*/{_TRASH}*"):
                shutil.rmtree(trash, ignore_errors=True)
            for place in os.scandir(self.folder):
                with contextlib.suppress(OSError):
                    if time.time() - place.stat().st_mtime > _SECONDS_TO_OUTLIVE:  # a new one is about to be used
                        os.rmdir(place)  # which only goes if nothing is in it
        with contextlib.suppress(OSError):
            for folder in Path(self.directory).glob("boot-*"):
                if str(folder) != self.folder and time.time() - folder.stat().st_mtime > _SECONDS_TO_OUTLIVE:
                    remove(str(folder))

    def sweep_now_and_then(self) -> None:
        """Sweep, unless this process did so a moment ago."""
        last = _SWEPT.get(self.directory, 0.0)
        if time.monotonic() - last > _SECONDS_BETWEEN_SWEEPS:
            _SWEPT[self.directory] = time.monotonic()
            self.sweep()

    def is_roomy(self, size: int) -> bool:
        """Tell whether so many bytes more leave half of the budget, as far as this process knows without looking."""
        return 2 * (_USED.get(self.directory, self.budget_bytes) + size) <= self.budget_bytes

    def evict(self, spare: str) -> None:
        """Remove entries that nobody uses, the least recently used first, until the budget holds."""
        listing = list(self.listing())
        excess = sum(listed.size for listed in listing) - self.budget_bytes
        idle = [listed for listed in listing if not listed.private and listed.path != spare]
        for listed in sorted(idle, key=lambda listed: listed.used):
            if excess <= 0:
                break
            remove(listed.path)
            excess -= listed.size


@dataclass(frozen=True)
class CachePlace:
    """Where the entries of one channel lie: what `KeyedState.open` is given."""

    cache: LocalCache
    checkpoint: str
    channel: int

    def take(self, nonce: str) -> FileEntry:
        """Take away this channel's entry, that of the commit `nonce` if there is one, else an older, else a new one."""
        self.cache.sweep_now_and_then()
        mine = [listed for listed in self.listing() if not listed.private]
        for listed in sorted(mine, key=lambda listed: (listed.nonce != nonce, -listed.used)):
            entry = FileEntry.taken(listed.path, self._path(_PRIVATE, listed.size, uuid.uuid4().hex), self)
            if entry is not None:
                return entry
        return FileEntry.created(self._path(_PRIVATE, 0, uuid.uuid4().hex), self)

    def holds(self, manifest: Manifest) -> bool:
        """Tell whether an entry of this commit is there to be taken, with all chunks."""
        mine = (listed for listed in self.listing() if not listed.private)
        return any(listed.nonce == manifest.nonce and has_chunks(listed.path, manifest) for listed in mine)

    def published(self, size: int, nonce: str) -> str:
        """Return the path of an entry that anybody may take."""
        return self._path("", size, nonce)

    def room(self, own: str, size: int) -> int:
        """Return the bytes that an entry may have: what others in use leave, or a fair share if that is more.

        Looks at the others only where they might matter for an entry of this `size`.
        """
        budget = self.cache.budget_bytes
        if self.cache.is_roomy(size):
            return budget
        mine = {listed.path for listed in self.listing() if not listed.private} | {own}
        others = [listed for listed in self.cache.listing() if listed.path not in mine]
        busy = [listed.size for listed in others if listed.private or time.time() - listed.used < _SECONDS_TO_IDLE]
        return max(budget // (len(busy) + 1), budget - sum(busy))

    def tidy(self, published: str, size: int) -> None:
        """Remove older entries of this channel, and others beyond the budget."""
        for listed in self.listing():
            if not listed.private and listed.path != published:
                remove(listed.path)
        if not self.cache.is_roomy(size):
            self.cache.evict(spare=published)
        directory = self.cache.directory
        _USED[directory] = _USED.get(directory, 0) + size

    def listing(self) -> Iterator[Listed]:
        """Yield the entries of this channel."""
        with contextlib.suppress(OSError):
            with os.scandir(self._folder) as entries:
                found = [Listed.of(entry, self.channel) for entry in entries]
            yield from (listed for listed in found if listed is not None)

    @property
    def _folder(self) -> str:
        return f"{self.cache.folder}/{self.checkpoint}.{self.channel}"

    def _path(self, mark: str, size: int, nonce: str) -> str:
        return f"{self._folder}/{mark}{size}.{nonce}"


@dataclass(frozen=True)
class Listed:
    """An entry as its name tells it."""

    path: str
    private: bool
    channel: int
    size: int
    nonce: str
    used: float

    @classmethod
    def of(cls, entry: os.DirEntry[str], channel: int) -> Listed | None:
        """Read an entry's name; None if it is not one, or has gone."""
        size, _, nonce = entry.name.removeprefix(_PRIVATE).partition(".")
        if not size.isdigit():
            return None
        try:
            used = entry.stat().st_mtime
        except OSError:
            return None
        return cls(entry.path, entry.name.startswith(_PRIVATE), channel, int(size), nonce, used)


@cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def remove(path: str) -> None:
    """Remove a folder, so that nobody sees it half removed."""
    trash = f"{os.path.dirname(path)}/{_TRASH}{uuid.uuid4().hex}"
    with contextlib.suppress(OSError):
        os.rename(path, trash)
        shutil.rmtree(trash, ignore_errors=True)
