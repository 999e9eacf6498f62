"""The manifest of a state: which chunks it consists of, and who wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from unskew.errors import CheckpointError

FORMAT = 1
_REMEMBERED_COMMITS = 16


@dataclass
class Chunk:
    """One chunk of the log.

    Parameters
    ----------
    sequence
        Its number; later chunks overrule earlier ones.
    nonce
        The commit that wrote it.
    rows, removed
        Rows in it, and how many of them, the last ones, only say that a key is removed. These count before the others.
    live
        Rows in it that are still the latest of their keys.
    earliest
        No live row has a deadline before this; None if no row has one.
    """

    sequence: int
    nonce: str
    rows: int
    removed: int
    live: int
    earliest: int | None = None

    @property
    def name(self) -> str:
        """A name that no other chunk of the channel has, nor had in an attempt that came to nothing."""
        return f"{self.sequence}-{self.nonce}"

    @property
    def weight(self) -> int:
        """Rows that survive when the chunk is merged into another."""
        return self.live + self.removed


@dataclass(frozen=True)
class Manifest:
    """What the store says about a state.

    Parameters
    ----------
    columns
        The columns in words.
    nonce
        The commit that wrote it; empty before the first.
    history
        The commits before it, latest first, as far as remembered.
    chunks
        In ascending order of their sequence numbers.
    cleaned
        How many rows at the start of the oldest chunk are known to be dead.
    next_sequence
        The number for the next chunk.
    rows
        Keys held.
    shared
        Hashes that different keys share, ascending.

    Examples
    --------
    >>> chunk = Chunk(sequence=1, nonce="a1", rows=10, removed=0, live=10)
    >>> manifest = Manifest("key user: string; value n: int64").after("a1", [chunk], next_sequence=2, rows=10)
    >>> Manifest.from_bytes(manifest.to_bytes()) == manifest
    True
    """

    columns: str
    nonce: str = ""
    history: tuple[str, ...] = ()
    chunks: tuple[Chunk, ...] = field(default=(), hash=False)
    cleaned: int = 0
    next_sequence: int = 1
    rows: int = 0
    shared: tuple[int, ...] = ()

    def after(
        self,
        nonce: str,
        chunks: Iterable[Chunk],
        *,
        next_sequence: int,
        rows: int,
        cleaned: int = 0,
        shared: Iterable[int] = (),
    ) -> Manifest:
        """Return the manifest of the next commit."""
        history = (self.nonce, *self.history)[:_REMEMBERED_COMMITS] if self.nonce else self.history
        return replace(
            self,
            nonce=nonce,
            history=history,
            chunks=tuple(replace(chunk) for chunk in chunks),
            cleaned=cleaned,
            next_sequence=next_sequence,
            rows=rows,
            shared=tuple(sorted(shared)),
        )

    def to_bytes(self) -> bytes:
        """Return the manifest as JSON."""
        entry = vars(self) | {"format": FORMAT, "chunks": [tuple(vars(chunk).values()) for chunk in self.chunks]}
        return json.dumps(entry, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """Read what `to_bytes` wrote, or raise `CheckpointError`."""
        try:
            entry = json.loads(data)
            version = entry.pop("format")
            if version > FORMAT:
                raise CheckpointError(
                    "the state was written by a newer unskew", got=version, hint="upgrade unskew to read it"
                )
            entry["chunks"] = tuple(Chunk(*chunk) for chunk in entry["chunks"])
            entry["history"], entry["shared"] = tuple(entry["history"]), tuple(entry["shared"])
            return cls(**entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            hint = "restore the checkpoint, or start from a new one"
            raise CheckpointError("the manifest of the state is damaged", got=data[:40], hint=hint) from error
