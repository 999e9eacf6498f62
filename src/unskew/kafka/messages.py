"""What travels on a topic: records, and the headers that mark where a message set begins and ends."""

from __future__ import annotations

from dataclasses import dataclass

from unskew.errors import FormatError

Headers = tuple[tuple[str, bytes], ...]

DATA, OPEN, CLOSE = 0, 1, 2

SET_ID, FLAG, SEQUENCE = "sm.id", "sm.flag", "sm.seq"
PREVIOUS, NEXT, FROM, TO, MESSAGES = "sm.prev", "sm.next", "sm.from", "sm.to", "sm.n"
NAMES = frozenset((SET_ID, FLAG, SEQUENCE, PREVIOUS, NEXT, FROM, TO, MESSAGES))
LANE_SIGN = "@"  # between a sequence number and its lane, 17@2: a row needs one header, not two

_GENERATION_BITS = 32


def set_id(generation: int, epoch: int) -> int:
    """Return the id of the message sets that begin in an epoch of a gateway's generation.

    The ids of one key grow: at most one of its sets begins in an epoch, and a later generation beats every epoch.

    >>> set_id(1, 2) < set_id(1, 3) < set_id(2, 1)
    True
    """
    return generation << _GENERATION_BITS | epoch


@dataclass(frozen=True, slots=True)
class Record:
    """One message of a partition, as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = 0

    @property
    def sequence(self) -> int | None:
        """The gateway's number of this message, which grows with every message of a key; None if it has none."""
        return Mark.of(self.headers).sequence


@dataclass(frozen=True, slots=True)
class Mark:
    """The parsed headers of a record. Numbers are written as decimal text, so that every Kafka tool can show them.

    `OPEN` and `CLOSE` are markers, messages without a value before the first and after the last message of a set.
    A message belongs to the set of its key that was opened last in its partition.

    >>> mark = Mark(OPEN, set_id(1, 3), sequence=17, neighbour=set_id(1, 2), partition=4)
    >>> Mark.of(mark.headers()) == mark
    True
    >>> Mark.of(()).flag
    0
    """

    flag: int = DATA
    set_id: int | None = None  # on markers
    sequence: int | None = None  # grows from message to message in a partition, for each lane
    lane: str = ""  # who numbered it, where several tasks or gateways write to a partition side by side
    neighbour: int | None = None  # the set before (of an opening marker) or after (of a closing one)
    partition: int | None = None  # where that set is
    messages: int | None = None  # on a closing marker: how many messages the set had, if the gateway knows

    def headers(self) -> Headers:
        opening = self.flag == OPEN
        numbers = {
            SET_ID: self.set_id,
            FLAG: self.flag,
            SEQUENCE: self.sequence,
            PREVIOUS if opening else NEXT: self.neighbour,
            FROM if opening else TO: self.partition,
            MESSAGES: self.messages,
        }
        written = {name: b"%d" % number for name, number in numbers.items() if number is not None}
        if self.lane and self.sequence is not None:
            written[SEQUENCE] += f"{LANE_SIGN}{self.lane}".encode()
        return tuple(written.items())

    @classmethod
    def of(cls, headers: Headers) -> Mark:
        """Parse headers. Headers of others are ignored; damaged ones of ours raise `FormatError`."""
        found = {name: value for name, value in headers if name in NAMES} if headers else None
        if not found:
            return _PLAIN
        sequence, _, lane_name = found.get(SEQUENCE, b"").partition(LANE_SIGN.encode())
        lane = lane_name.decode()
        if lane:
            found[SEQUENCE] = sequence
        try:
            number = {name: int(value) for name, value in found.items()}
        except ValueError as error:
            raise FormatError("a header of a message set is not a number", got=found) from error
        flag = number.get(FLAG, DATA)
        if flag == DATA:
            return cls(DATA, number.get(SET_ID), number.get(SEQUENCE), lane)
        neighbour, partition = (PREVIOUS, FROM) if flag == OPEN else (NEXT, TO)
        if flag not in {OPEN, CLOSE} or not {SET_ID, neighbour, partition} <= set(number):
            raise FormatError("a marker of a message set is incomplete", got=found)
        places = number[neighbour], number[partition]
        return cls(flag, number[SET_ID], number.get(SEQUENCE), lane, *places, number.get(MESSAGES))


_PLAIN = Mark()
