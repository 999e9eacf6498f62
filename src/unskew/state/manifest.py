"""The manifest of a state: which chunks it consists of, and who wrote it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from unskew.errors import CheckpointError

FORMAT = 1
_REMEMBERED_COMMITS = 16


@dataclass
class Chunk:
    """One chunk of the log. Its last rows may only say that a key is removed; they take effect before the others."""

    sequence: int  # later chunks overrule earlier ones
    nonce: str  # the commit that wrote it
    rows: int
    removed: int  # how many of the rows only say that a key is removed
    live: int  # how many of the rows are still the latest of their keys
    earliest: int | None = None  # no live row has a deadline before this; None if no row has one

    @property
    def name(self) -> str:
        """A name that no other chunk of the channel has, not even one of an attempt that failed."""
        return f"{self.sequence}-{self.nonce}"

    @property
    def weight(self) -> int:
        return self.live + self.removed  # what survives when the chunk is merged into another


@dataclass(frozen=True)
class Manifest:
    """What the store says about a state."""

    columns: str  # the columns in words
    nonce: str = ""  # the commit that wrote it; empty before the first
    history: tuple[str, ...] = ()  # the commits before it, latest first, as far as remembered
    chunks: tuple[Chunk, ...] = field(default=(), hash=False)  # by sequence number
    cleaned: int = 0  # how many rows at the start of the oldest chunk are known to be dead
    next_sequence: int = 1
    rows: int = 0  # keys held
    shared: tuple[int, ...] = ()  # hashes that different keys share, ascending

    @property
    def commits(self) -> tuple[str, ...]:
        """The last commits, this one first."""
        return (self.nonce, *self.history)[:_REMEMBERED_COMMITS] if self.nonce else ()

    def to_bytes(self) -> bytes:
        entry = vars(self) | {"format": FORMAT, "chunks": [tuple(vars(chunk).values()) for chunk in self.chunks]}
        return json.dumps(entry, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        try:
            entry = json.loads(data)
            version = entry.pop("format")
            if version > FORMAT:
                hint = "upgrade unskew to read it"
                raise CheckpointError("the state was written by a newer unskew", got=version, hint=hint)
            entry["chunks"] = tuple(Chunk(*chunk) for chunk in entry["chunks"])
            entry["history"], entry["shared"] = tuple(entry["history"]), tuple(entry["shared"])
            return cls(**entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            hint = "restore the checkpoint, or start from a new one"
            raise CheckpointError("the manifest of the state is damaged", got=data[:40], hint=hint) from error
