"""What has to survive a consumer, for each partition: small, because held messages are read again from Kafka."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from unskew.errors import FormatError
from unskew.kafka.holds import pack, unpack
from unskew.kafka.messages import Record


@dataclass(frozen=True)
class Snapshot:
    """Where a partition stands.

    Parameters
    ----------
    safe_offset
        Where reading begins again: the first offset that is not done with. What is committed to Kafka.
    resume_offset
        The first offset not seen yet. Between the two lie messages of other keys, already processed.
    unfinished
        Keys with messages between the two that are still to be processed, and from which offset on.
    sequences
        Last sequence number of each lane before `safe_offset`.
    sets
        Open message sets: key to (set id, messages so far).
    dones
        Hand-overs received for sets that have not begun here: key to (set id, state, when).
    control_offset
        How far the control partition had been read.
    begins
        Partitions that the group began to read late: partition to the time, in ms, from which on.

    Examples
    --------
    >>> snapshot = Snapshot(10, 25, unfinished={b"key": 10}, sequences={"": 7})
    >>> Snapshot.from_bytes(snapshot.to_bytes()) == snapshot
    True
    """

    safe_offset: int = 0
    resume_offset: int = 0
    unfinished: Mapping[bytes, int] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)
    sets: Mapping[bytes, tuple[int, int]] = field(default_factory=dict)
    dones: Mapping[bytes, tuple[int, bytes | None, float]] = field(default_factory=dict)
    control_offset: int = 0
    begins: Mapping[int, int] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the snapshot as JSON."""
        entry = {
            **vars(self),
            "unfinished": {_text(key): offset for key, offset in self.unfinished.items()},
            "sequences": dict(self.sequences),
            "begins": dict(self.begins),
            "sets": {_text(key): opened for key, opened in self.sets.items()},
            "dones": {
                _text(key): (done, None if state is None else _text(state), when)
                for key, (done, state, when) in self.dones.items()
            },
        }
        return json.dumps(entry, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read what `to_bytes` wrote; raises `FormatError` if it is something else."""
        try:
            entry: dict[str, Any] = json.loads(data)
            return cls(
                safe_offset=int(entry["safe_offset"]),
                resume_offset=int(entry["resume_offset"]),
                unfinished={_bytes(key): int(offset) for key, offset in entry["unfinished"].items()},
                sequences={lane: int(last) for lane, last in entry["sequences"].items()},
                sets={_bytes(key): (int(opened[0]), int(opened[1])) for key, opened in entry["sets"].items()},
                dones={
                    _bytes(key): (int(done), None if state is None else _bytes(state), float(when))
                    for key, (done, state, when) in entry["dones"].items()
                },
                control_offset=int(entry["control_offset"]),
                begins={int(origin): int(at) for origin, at in entry["begins"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FormatError(f"these bytes are not a snapshot of a partition: {error}") from error


@dataclass(frozen=True)
class Carried:
    """A partition with the messages it holds, for consumers that cannot read them again.

    Parameters
    ----------
    snapshot
        Where the partition stands.
    held
        Messages that wait, and the marker before them, in order.
    sequences
        Last sequence number of each lane, at its resume offset.
    since
        When each key began to wait.
    alarmed
        Keys whose waiting was reported.

    Examples
    --------
    >>> carried = Carried(Snapshot(3, 5, {b"k": 3}), (Record(0, 4, b"k", b"v"),), {"": 7}, {b"k": 1.5})
    >>> Carried.from_bytes(carried.to_bytes()) == carried
    True
    """

    snapshot: Snapshot
    held: tuple[Record, ...] = ()
    sequences: Mapping[str, int] = field(default_factory=dict)
    since: Mapping[bytes, float] = field(default_factory=dict)
    alarmed: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        """Return a line of JSON, and the messages behind it."""
        entry = {
            "snapshot": self.snapshot.to_bytes().decode(),
            "sequences": dict(self.sequences),
            "since": {_text(key): when for key, when in self.since.items()},
            "alarmed": [_text(key) for key in self.alarmed],
            "held": len(self.held),
        }
        return b"".join([json.dumps(entry).encode(), b"\n", *(pack(record) for record in self.held)])

    @classmethod
    def from_bytes(cls, data: bytes) -> Carried:
        """Read what `to_bytes` wrote; raises `FormatError` if it is something else."""
        file = io.BytesIO(data)
        try:
            entry: dict[str, Any] = json.loads(file.readline())
            return cls(
                Snapshot.from_bytes(entry["snapshot"].encode()),
                tuple(unpack(file) for _ in range(entry["held"])),
                {lane: int(last) for lane, last in entry["sequences"].items()},
                {_bytes(key): float(when) for key, when in entry["since"].items()},
                tuple(_bytes(key) for key in entry["alarmed"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, struct.error) as error:
            raise FormatError(f"these bytes are not a partition with its messages: {error}") from error


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text)
