"""What a machine remembers of one partition: open message sets, hand-overs that came early, keys that wait."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from unskew.kafka.holds import HoldQueue
from unskew.kafka.messages import Mark, Record


@dataclass(slots=True)
class OpenSet:
    """A set that has begun, and its messages so far."""

    set_id: int
    messages: int = 0


@dataclass(slots=True)
class Done:
    """A hand-over: everything up to the end of a set is processed."""

    set_id: int
    state: bytes | None
    when: float


@dataclass(slots=True)
class Hold:
    """A key whose messages queue up: for the end of the set before, or (`waiting` None) to be drained.

    `origin` is where that set lies, `opened_at` and `opened_ms` offset and time of the marker that begins the next one.
    """

    opened_at: int
    sequences: dict[str, int]
    unfinished_from: int
    queue: HoldQueue
    opens: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)
    waiting: int | None = None
    set_id: int = 0
    origin: int = 0
    opened_ms: int = 0
    since: float = 0.0
    alarmed: bool = False

    def wait(self, opening: Record, mark: Mark, now: float) -> None:
        """Begin to wait for the set before an opening marker."""
        assert mark.set_id is not None and mark.neighbour is not None and mark.partition is not None
        self.waiting, self.set_id, self.origin = mark.neighbour, mark.set_id, mark.partition
        self.opened_ms, self.since, self.alarmed = opening.timestamp_ms, now, False


@dataclass(slots=True)
class Partition:
    """Where a partition stands; `Snapshot` says what the first fields mean."""

    position: int = 0
    resume_at: int = 0
    control_offset: int = 0
    unfinished: dict[bytes, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    sets: dict[bytes, OpenSet] = field(default_factory=dict)
    dones: dict[bytes, Done] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    holds: dict[bytes, Hold] = field(default_factory=dict)

    def may_begin(self, opening: Record, mark: Mark) -> bool:
        """Tell whether nothing is left to wait for before the set of an opening marker."""
        assert opening.key is not None and mark.neighbour is not None and mark.partition is not None
        done = self.dones.get(opening.key)
        if done is not None and done.set_id >= mark.neighbour:
            return True
        return opening.timestamp_ms < self.begins.get(mark.partition, 0)
