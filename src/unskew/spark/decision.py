"""What is decided for one batch before it starts: how to route, what to extract, what to install."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from unskew.errors import FormatError
from unskew.planners.memory import Memory
from unskew.routing.moves import Moves
from unskew.routing.storage import table_from_bytes, table_to_bytes
from unskew.routing.table import RoutingTable
from unskew.spark.tuple_routes import Head


@dataclass(frozen=True, eq=False)
class Decision:
    """The decision for one batch.

    Parameters
    ----------
    batch_id
        The batch it is for.
    table
        How this batch is routed.
    target
        Where a migration in progress leads; None when there is none.
    extract
        What leaves its channel at the end of this batch.
    install
        Per channel, the files with state that enters before this batch's rows.
    batches_since_plan, planned_at_ms
        Batches since the last plan was made, and when that was, so that intervals survive a restart.
    memory
        The planner's memory.
    previous_watermark_ms
        The watermark of the batch before, by which rows are late; None without event time.
    head
        The hottest keys, for schemes that give them more choices than others.
    memory_bytes
        State that each channel may hold in its local copy; none: as much as there is room for.
    learned, lesson
        What a `Learner` has learned from the batches before, and the part of it that tasks have to know.

    Examples
    --------
    >>> decision = Decision(3, RoutingTable.initial(2), install={1: ("moved/3.1.ab",)})
    >>> Decision.from_json(decision.to_json()).install
    {1: ('moved/3.1.ab',)}
    """

    batch_id: int
    table: RoutingTable
    target: RoutingTable | None = None
    extract: Moves = field(default_factory=Moves.none)
    install: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    batches_since_plan: int = 0
    planned_at_ms: int = 0
    memory: Memory = field(default_factory=Memory)
    previous_watermark_ms: int | None = None
    head: Head = field(default_factory=Head)
    memory_bytes: tuple[int, ...] = ()
    learned: bytes = b""
    lesson: bytes = b""

    @property
    def listed_keys(self) -> NDArray[np.int64]:
        """Keys that do not travel with their slot, because this table or the target has an entry for them."""
        tables = [self.table] if self.target is None else [self.table, self.target]
        return np.unique(np.concatenate([table.listed_keys for table in tables]))

    @property
    def channels_called(self) -> int:
        """Channels that are called in every batch with rows: those of the table, and those a migration leads to."""
        return max(self.table.channels, 0 if self.target is None else self.target.channels)

    def for_tasks(self) -> str:
        """Return as text what routers and channels need to know; travels with every task."""
        return replace(self, memory=Memory(), learned=b"").to_json()

    def to_json(self) -> str:
        """Return the decision as text."""
        return json.dumps(
            {
                "batch_id": self.batch_id,
                "table": _encode(table_to_bytes(self.table)),
                "target": None if self.target is None else _encode(table_to_bytes(self.target)),
                "extract": {name: _encode(column.tobytes()) for name, column in vars(self.extract).items()},
                "install": {str(channel): files for channel, files in self.install.items()},
                "batches_since_plan": self.batches_since_plan,
                "planned_at_ms": self.planned_at_ms,
                "memory": _encode(self.memory.to_bytes()),
                "previous_watermark_ms": self.previous_watermark_ms,
                "head": [_encode(self.head.hashes.tobytes()), _encode(self.head.tuples.tobytes()), self.head.total],
                "memory_bytes": self.memory_bytes,
                "learned": _encode(self.learned),
                "lesson": _encode(self.lesson),
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read what `to_json` wrote; raises `FormatError` if it is something else."""
        try:
            entry = json.loads(text)
            columns = {
                name: np.frombuffer(_decode(entry["extract"][name]), column.dtype)
                for name, column in vars(Moves.none()).items()
            }
            return cls(
                batch_id=entry["batch_id"],
                table=_table(entry["table"]),
                target=None if entry["target"] is None else _table(entry["target"]),
                extract=Moves(**columns),
                install={int(channel): tuple(files) for channel, files in entry["install"].items()},
                batches_since_plan=entry["batches_since_plan"],
                planned_at_ms=entry["planned_at_ms"],
                memory=Memory.from_bytes(_decode(entry["memory"])),
                previous_watermark_ms=entry["previous_watermark_ms"],
                head=_head(*entry["head"]),
                memory_bytes=tuple(entry["memory_bytes"]),
                learned=_decode(entry.get("learned", "")),
                lesson=_decode(entry.get("lesson", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"this is not a decision: {error}") from error


def _head(hashes: str, tuples: str, total: float) -> Head:
    return Head(np.frombuffer(_decode(hashes), np.int64), np.frombuffer(_decode(tuples), np.float64), total)


@lru_cache(maxsize=16)
def _table(encoded: str) -> RoutingTable:
    return table_from_bytes(_decode(encoded))


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
