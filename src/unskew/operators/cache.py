"""The cache of an executor: each channel's state as local memory-mapped files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LocalCache:
    """Local copies of the state of channels, shared by all processes of a machine that use the same directory.

    An entry is taken away before it is changed and trusted only if its nonce is the one that the store committed last;
    one that is behind catches up. Losing entries costs time, never correctness.

    Parameters
    ----------
    directory
        Local disk (not a network share); made if it does not exist.
    budget_bytes
        Beyond it, the largest shares shrink and the least recently used entries go.
    """

    directory: Path
    budget_bytes: int

    def place(self, checkpoint: str, channel: int) -> CachePlace:
        """Return the place of one channel of one checkpoint (any text that names it, its path for instance)."""
        return CachePlace(self, checkpoint, channel)


@dataclass(frozen=True)
class CachePlace:
    """Where the entries of one channel lie: what `KeyedState.open` is given."""

    cache: LocalCache
    checkpoint: str
    channel: int
