"""The cache of an executor: each channel's state as local memory-mapped files."""

from __future__ import annotations

import contextlib
import hashlib
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

_PRIVATE, _TRASH, _PARTS = "~", "trash-", 4


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
    def folder(self) -> Path:
        """Where the entries of this start of the machine lie."""
        return Path(self.directory) / f"boot-{_boot()}"

    def listing(self) -> Iterator[Listed]:
        """Yield every entry."""
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                listed = Listed.of(path)
                if listed is not None:
                    yield listed

    def sweep(self) -> None:
        """Remove what processes that died have left behind, and entries of earlier starts of the machine."""
        for listed in self.listing():
            if listed.private and is_abandoned(listed.path):
                remove(listed.path)
        with contextlib.suppress(OSError):
            for trash in self.folder.glob(f"{_TRASH}*"):
                shutil.rmtree(trash, ignore_errors=True)
            for folder in Path(self.directory).glob("boot-*"):
                if folder != self.folder and time.time() - folder.stat().st_mtime > _SECONDS_TO_OUTLIVE:
                    remove(folder)

    def sweep_now_and_then(self) -> None:
        """Sweep, unless this process did so a moment ago."""
        last = _SWEPT.get(self.directory, 0.0)
        if time.monotonic() - last > _SECONDS_BETWEEN_SWEEPS:
            _SWEPT[self.directory] = time.monotonic()
            self.sweep()

    def evict(self, spare: Path) -> None:
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
        mine = [listed for listed in self.cache.listing() if self._owns(listed) and not listed.private]
        for listed in sorted(mine, key=lambda listed: (listed.nonce != nonce, -listed.used)):
            entry = FileEntry.taken(listed.path, self._path(_PRIVATE, listed.size, uuid.uuid4().hex), self)
            if entry is not None:
                return entry
        return FileEntry.created(self._path(_PRIVATE, 0, uuid.uuid4().hex), self)

    def holds(self, manifest: Manifest) -> bool:
        """Tell whether an entry of this commit is there to be taken, with all chunks."""
        mine = (listed for listed in self.cache.listing() if self._owns(listed) and not listed.private)
        return any(listed.nonce == manifest.nonce and has_chunks(listed.path, manifest) for listed in mine)

    def published(self, size: int, nonce: str) -> Path:
        """Return the path of an entry that anybody may take."""
        return self._path("", size, nonce)

    def room(self, own: Path) -> int:
        """Return the bytes that an entry may have: what others in use leave, or a fair share if that is more."""
        others = [listed for listed in self.cache.listing() if listed.path != own and not self._outdated(listed)]
        busy = [listed.size for listed in others if listed.private or time.time() - listed.used < _SECONDS_TO_IDLE]
        return max(self.cache.budget_bytes // (len(busy) + 1), self.cache.budget_bytes - sum(busy))

    def tidy(self, published: Path) -> None:
        """Remove older entries of this channel, and others beyond the budget."""
        for listed in self.cache.listing():
            if self._outdated(listed) and listed.path != published:
                remove(listed.path)
        self.cache.evict(spare=published)

    def _owns(self, listed: Listed) -> bool:
        return (listed.checkpoint, listed.channel) == (self.checkpoint, self.channel)

    def _outdated(self, listed: Listed) -> bool:
        return self._owns(listed) and not listed.private

    def _path(self, mark: str, size: int, nonce: str) -> Path:
        return self.cache.folder / f"{mark}{self.checkpoint}.{self.channel}.{size}.{nonce}"


@dataclass(frozen=True)
class Listed:
    """An entry as its name tells it."""

    path: Path
    private: bool
    checkpoint: str
    channel: int
    size: int
    nonce: str
    used: float

    @classmethod
    def of(cls, path: Path) -> Listed | None:
        """Read an entry's name; None if it is not one, or has gone."""
        parts = path.name.removeprefix(_PRIVATE).split(".")
        if len(parts) != _PARTS or not (parts[1].isdigit() and parts[2].isdigit()):
            return None
        try:
            used = path.stat().st_mtime
        except OSError:
            return None
        return cls(path, path.name.startswith(_PRIVATE), parts[0], int(parts[1]), int(parts[2]), parts[3], used)


@cache
def _boot() -> str:
    return _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else "unknown"


def remove(path: Path) -> None:
    """Remove a folder, so that nobody sees it half removed."""
    trash = path.with_name(f"{_TRASH}{uuid.uuid4().hex}")
    with contextlib.suppress(OSError):
        path.rename(trash)
        shutil.rmtree(trash, ignore_errors=True)
