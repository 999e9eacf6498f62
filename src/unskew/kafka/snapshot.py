"""What has to survive a consumer, for each partition: small, because held messages are read again from Kafka."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from unskew.errors import FormatError
from unskew.kafka.holds import pack, unpack
from unskew.kafka.messages import Record

_UNREADABLE = (KeyError, TypeError, ValueError, AttributeError, struct.error)


class OpenSet(NamedTuple):
    """A set that has begun, and its messages so far."""

    set_id: int
    messages: int = 0


class Done(NamedTuple):
    """A hand-over: everything up to the end of a set is processed."""

    set_id: int
    state: bytes | None
    when: float


@dataclass(frozen=True)
class Snapshot:
    """The state of a partition without the messages it holds.

    Between `safe_offset` and `resume_offset` lie messages that are held, among messages of other keys that have been
    processed.

    >>> snapshot = Snapshot(10, 25, unfinished={b"key": 10}, sequences={"": 7})
    >>> Snapshot.from_bytes(snapshot.to_bytes()) == snapshot
    True
    """

    safe_offset: int = 0  # where reading begins again, and what is committed to Kafka
    resume_offset: int = 0  # the first offset not seen yet
    unfinished: Mapping[bytes, int] = field(default_factory=dict)  # keys with messages to process: from which offset
    sequences: Mapping[str, int] = field(default_factory=dict)  # last sequence number of each lane before safe_offset
    sets: Mapping[bytes, OpenSet] = field(default_factory=dict)
    dones: Mapping[bytes, Done] = field(default_factory=dict)  # for sets that have not begun here
    control_offset: int = 0  # how far the control partition had been read
    begins: Mapping[int, int] = field(default_factory=dict)  # partitions that the group reads from a time (ms) on

    def to_bytes(self) -> bytes:
        entry = {
            **vars(self),
            "unfinished": {to_text(key): offset for key, offset in self.unfinished.items()},
            "sets": {to_text(key): opened for key, opened in self.sets.items()},
            "dones": {
                to_text(key): (done, None if state is None else to_text(state), when)
                for key, (done, state, when) in self.dones.items()
            },
        }
        return json.dumps(entry, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        try:
            entry: dict[str, Any] = json.loads(data)
            return cls(
                safe_offset=int(entry["safe_offset"]),
                resume_offset=int(entry["resume_offset"]),
                unfinished={from_text(key): int(offset) for key, offset in entry["unfinished"].items()},
                sequences={lane: int(last) for lane, last in entry["sequences"].items()},
                sets={from_text(key): OpenSet(*map(int, opened)) for key, opened in entry["sets"].items()},
                dones={
                    from_text(key): Done(int(done), None if state is None else from_text(state), float(when))
                    for key, (done, state, when) in entry["dones"].items()
                },
                control_offset=int(entry["control_offset"]),
                begins={int(origin): int(at) for origin, at in entry["begins"].items()},
            )
        except _UNREADABLE as error:
            raise FormatError(f"these bytes are not a snapshot of a partition: {error}") from error


@dataclass(frozen=True)
class Carried:
    """A partition with the messages it holds, for consumers that cannot read them again.

    >>> carried = Carried(Snapshot(3, 5, {b"k": 3}), (Record(0, 4, b"k", b"v"),), {"": 7}, {b"k": 1.5})
    >>> Carried.from_bytes(carried.to_bytes()) == carried
    True
    """

    snapshot: Snapshot
    held: tuple[Record, ...] = ()  # messages that wait, and the marker before them, in order
    sequences: Mapping[str, int] = field(default_factory=dict)  # last sequence number of each lane at resume_offset
    since: Mapping[bytes, float] = field(default_factory=dict)  # when each key began to wait
    alarmed: tuple[bytes, ...] = ()  # keys whose waiting was reported

    def to_bytes(self) -> bytes:
        """Return a line of JSON, then the messages."""
        entry = {
            "snapshot": self.snapshot.to_bytes().decode(),
            "sequences": self.sequences,
            "since": {to_text(key): when for key, when in self.since.items()},
            "alarmed": [to_text(key) for key in self.alarmed],
            "held": len(self.held),
        }
        return b"".join([json.dumps(entry).encode(), b"\n", *(pack(record) for record in self.held)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Carried:
        file = io.BytesIO(data)
        try:
            entry: dict[str, Any] = json.loads(file.readline())
            return cls(
                Snapshot.from_bytes(entry["snapshot"].encode()),
                tuple(unpack(file) for _ in range(entry["held"])),
                {lane: int(last) for lane, last in entry["sequences"].items()},
                {from_text(key): float(when) for key, when in entry["since"].items()},
                tuple(from_text(key) for key in entry["alarmed"]),
            )
        except _UNREADABLE as error:
            raise FormatError(f"these bytes are not a partition with its messages: {error}") from error


def to_text(data: bytes) -> str:
    """Return bytes as text for JSON."""
    return base64.b64encode(data).decode()


def from_text(text: str) -> bytes:
    """Return the bytes that `to_text` was given."""
    return base64.b64decode(text)
