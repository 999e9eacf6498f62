"""The decisions of a gateway, kept in the checkpoint beside Spark's own logs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from unskew.codec import dump, load
from unskew.errors import CheckpointError
from unskew.state.files import Files

ENTRIES_KEPT = 5
BATCHES_BETWEEN_CLEANINGS = 10

FOLDER = "unskew/decisions"
QUERY = "unskew/query"


@dataclass(frozen=True)
class Identity:
    """The settings that must stay the same from one start to the next."""

    parts: Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """The decision for a batch."""

    data: bytes
    writer: str  # random, so that equal decisions of two writers differ


@dataclass(frozen=True)
class DecisionLog:
    """The decisions for all recent batches, in files below the folder ``unskew`` of a checkpoint.

    The decision for a batch is ``decisions/<batch>.0``, and the first writer wins. A decision that has to change after
    a failure gets the next number behind the point; the highest number counts. Every file carries a checksum. A damaged
    one raises `FormatError`, a missing one `CheckpointError`.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     log = DecisionLog(Files(folder))
    ...     log.write(7, b"mine"), log.write(7, b"yours"), log.read(7)
    ...     log.overrule(7, b"better")
    ...     log.read(7)
    (True, False, b'mine')
    b'better'
    """

    checkpoint: Files  # Spark keeps its own logs here, too

    def identify(self, identity: Mapping[str, Any]) -> None:
        """Record this query's identity at the first start that plans a batch; later, refuse another query."""
        if self.last_planned() < 0:
            self.checkpoint.remove(QUERY)
        if self.checkpoint.create(QUERY, dump(Identity(identity))):
            return
        known = load(Identity, self.checkpoint.read(QUERY), where=self._path(QUERY)).parts
        for part, value in identity.items():
            if known.get(part) != value:
                raise CheckpointError(
                    f"this checkpoint was written with {part} = {known.get(part)!r}",
                    where=self.checkpoint.root,
                    got=value,
                    hint=f"use the same {part}, or start with a new checkpointLocation",
                )

    def last_planned(self) -> int:
        """Return the last batch that Spark planned, -1 if there is none."""
        return max((int(name) for name in self.checkpoint.names("offsets") if name.isdigit()), default=-1)

    def write(self, batch_id: int, data: bytes) -> bool:
        """Write the first decision for a batch; return False if there is one already."""
        return self._create(batch_id, 0, data)

    def overrule(self, batch_id: int, data: bytes) -> None:
        """Replace the decision for a batch."""
        attempt = max(self._attempts(batch_id), default=-1) + 1
        while not self._create(batch_id, attempt, data):
            attempt += 1

    def read(self, batch_id: int) -> bytes:
        """Return the decision that counts for a batch."""
        name = _name(batch_id, max(self._attempts(batch_id), default=0))
        return load(Entry, self.checkpoint.read(name), where=self._path(name)).data

    def forget_before(self, batch_id: int) -> None:
        """Remove the decisions of batches long past, once every few batches."""
        if batch_id % BATCHES_BETWEEN_CLEANINGS:
            return
        for number, attempt in self._entries():
            if number < batch_id - ENTRIES_KEPT:
                self.checkpoint.remove(_name(number, attempt))

    def _create(self, batch_id: int, attempt: int, data: bytes) -> bool:
        return self.checkpoint.create(_name(batch_id, attempt), dump(Entry(data, uuid.uuid4().hex)))

    def _attempts(self, batch_id: int) -> list[int]:
        return [attempt for number, attempt in self._entries() if number == batch_id]

    def _entries(self) -> list[tuple[int, int]]:
        parts = (name.split(".") for name in self.checkpoint.names(FOLDER))
        return [(int(part[0]), int(part[1])) for part in parts if len(part) == 2 and all(map(str.isdigit, part))]

    def _path(self, name: str) -> str:
        return f"{self.checkpoint.root}/{name}"


def _name(batch_id: int, attempt: int) -> str:
    return f"{FOLDER}/{batch_id}.{attempt}"
