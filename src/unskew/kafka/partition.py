"""What a machine remembers of one partition: open message sets, hand-overs that came early, keys that wait."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from unskew.kafka.holds import HoldQueue
from unskew.kafka.messages import OPEN, Mark, Record
from unskew.kafka.snapshot import Carried, Done, OpenSet, Snapshot


@dataclass(slots=True)
class Hold:
    """A key whose messages queue up until the set before ends, or until they are drained."""

    opened_at: int  # offset of the marker that begins the next set
    sequences: dict[str, int]  # last sequence number of each lane before that marker
    unfinished_from: int
    queue: HoldQueue
    opens: deque[tuple[int, dict[str, int]]] = field(default_factory=deque)  # the same two for markers in the queue
    waiting: int | None = None  # the set it waits for; None while the queue is drained
    set_id: int = 0
    origin: int = 0  # partition of the set it waits for
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
    """The state of a partition; `Snapshot` explains the fields that both have."""

    position: int = 0
    resume_at: int = 0
    control_offset: int = 0
    unfinished: dict[bytes, int] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    sets: dict[bytes, OpenSet] = field(default_factory=dict)
    dones: dict[bytes, Done] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    holds: dict[bytes, Hold] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot) -> Partition:
        return cls(
            position=snapshot.safe_offset,
            resume_at=snapshot.resume_offset,
            control_offset=snapshot.control_offset,
            unfinished=dict(snapshot.unfinished),
            sequences=dict(snapshot.sequences),
            sets=dict(snapshot.sets),
            dones=dict(snapshot.dones),
            begins=dict(snapshot.begins),
        )

    @property
    def safe_offset(self) -> int:
        """The first offset that is held, or else the next to be read."""
        return min((hold.opened_at for hold in self.holds.values()), default=self.position)

    def snapshot(self) -> Snapshot:
        """Return the state without the messages on hold."""
        first = min(self.holds.values(), key=lambda hold: hold.opened_at, default=None)
        replaying = self.position < self.resume_at
        unfinished = {key: max(start, self.position) for key, start in self.unfinished.items()} if replaying else {}
        for key, hold in self.holds.items():
            unfinished[key] = hold.unfinished_from if hold.waiting is None else hold.opened_at
        return Snapshot(
            safe_offset=self.safe_offset,
            resume_offset=max(self.position, self.resume_at),
            unfinished=unfinished,
            sequences=dict(self.sequences if first is None else first.sequences),
            sets=dict(self.sets),
            dones=dict(self.dones),
            control_offset=self.control_offset,
            begins=dict(self.begins),
        )

    def carried(self, number: int) -> Carried:
        """Return the state with the messages on hold; no key may be half drained."""
        held = []
        for key, hold in self.holds.items():
            mark = Mark(OPEN, hold.set_id, neighbour=hold.waiting, partition=hold.origin)
            held += [Record(number, hold.opened_at, key, None, mark.headers(), hold.opened_ms), *hold.queue]
        return Carried(
            self.snapshot(),
            held=tuple(sorted(held, key=lambda record: record.offset)),
            sequences=dict(self.sequences),
            since={key: hold.since for key, hold in self.holds.items()},
            alarmed=tuple(key for key, hold in self.holds.items() if hold.alarmed),
        )

    def may_begin(self, opening: Record, mark: Mark) -> bool:
        """Tell whether the set of an opening marker need not wait."""
        assert opening.key is not None and mark.neighbour is not None and mark.partition is not None
        done = self.dones.get(opening.key)
        if done is not None and done.set_id >= mark.neighbour:
            return True
        return opening.timestamp_ms < self.begins.get(mark.partition, 0)

    def count(self, key: bytes) -> None:
        opened = self.sets.get(key)
        if opened is not None:
            self.sets[key] = OpenSet(opened.set_id, opened.messages + 1)
