"""Order restored batch by batch, for those who get their records in batches and keep the state in between."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from unskew.errors import FormatError
from unskew.kafka.messages import Record
from unskew.kafka.order import Action, Alarm, OrderMachine, Process, SendDone
from unskew.kafka.snapshot import Carried

_HEAD = struct.Struct("<iI")


@dataclass(frozen=True)
class Ordered:
    """What came of a batch: records in order for each key, the state for the next batch, alarms, duplicates dropped."""

    records: tuple[Record, ...]
    state: bytes
    alarms: tuple[Alarm, ...]
    duplicates: int
    held: int


def order_batch(
    state: bytes | None, records: Iterable[Record], now: float = 0.0, *, whole: bool = False, **machine: Any
) -> Ordered:
    """Put a batch of records of all partitions in order; those that must wait stay in the state.

    Whoever calls it sees all records of its keys, from whichever partition, so hand-overs need no control topic. Unless
    the topic is read `whole`, sets that were opened before the first record of their origin do not wait: what came
    before it is not known. The same state and records give the same answer: a batch that runs again is harmless.

    Costs what `OrderMachine` costs, and reading and writing the state: a few hundred bytes a partition, an entry for
    each open set, and the messages that wait.

    Parameters
    ----------
    state
        Of the batch before; None at first.
    records
        In the order of their offsets in each partition.
    now
        Seconds, for `hold_seconds`.
    whole
        Whether partitions that appear for the first time are read from their very first message.
    machine
        Parameters of `OrderMachine`.

    Examples
    --------
    >>> from unskew.kafka.messages import CLOSE, OPEN, Mark
    >>> opening, closing = Mark(OPEN, 11, neighbour=10, partition=0), Mark(CLOSE, 10, neighbour=11, partition=1)
    >>> early = [Record(1, 0, b"k", None, opening.headers()), Record(1, 1, b"k", b"b")]
    >>> late = [Record(0, 0, b"k", b"a"), Record(0, 1, b"k", None, closing.headers())]
    >>> first = order_batch(None, early)
    >>> first.records, first.held
    ((), 1)
    >>> [record.value for record in order_batch(first.state, late).records]
    [b'a', b'b']
    """
    orders, begins = OrderMachine(**machine), dict[int, int]()
    for partition, carried in _read(state or b""):
        orders.take_up(partition, carried)
        begins.update(carried.snapshot.begins)
    out, alarms, todo = list[Record](), list[Alarm](), deque[Action]()
    for record in records:
        if record.partition not in begins:
            begins[record.partition] = 0 if whole else record.timestamp_ms
            _own(orders, record.partition, record.offset, begins)
            for each in orders.partitions:
                todo.extend(orders.on_begin(each, record.partition, begins[record.partition], now))
        todo.extend(orders.on_record(record, now))
        _carry_out(orders, todo, out, alarms, begins, now)
    todo.extend(orders.on_time(now))
    _carry_out(orders, todo, out, alarms, begins, now)
    left = b"".join(_write(partition, orders.carry(partition)) for partition in orders.partitions)
    answer = Ordered(tuple(out), left, tuple(alarms), orders.duplicates, orders.held)
    orders.close()
    return answer


def _carry_out(
    orders: OrderMachine,
    todo: deque[Action],
    out: list[Record],
    alarms: list[Alarm],
    begins: Mapping[int, int],
    now: float,
) -> None:
    while todo or orders.busy:
        if not todo:
            todo.extend(orders.advance(now))
            continue
        action = todo.popleft()
        if isinstance(action, Process):
            out.append(action.record)
        elif isinstance(action, SendDone):
            _own(orders, action.target, 0, begins)
            todo.extend(orders.on_done(action.target, action.key, action.set_id, None, now))
        elif isinstance(action, Alarm):
            alarms.append(action)


def _own(orders: OrderMachine, partition: int, offset: int, begins: Mapping[int, int]) -> None:
    if not orders.owns(partition):
        orders.assign(partition, offset)
        for origin, timestamp_ms in begins.items():
            orders.on_begin(partition, origin, timestamp_ms)


def _write(partition: int, carried: Carried) -> bytes:
    data = carried.to_bytes()
    return _HEAD.pack(partition, len(data)) + data


def _read(state: bytes) -> Iterable[tuple[int, Carried]]:
    at = 0
    while at < len(state):
        try:
            partition, length = _HEAD.unpack_from(state, at)
        except struct.error as error:
            raise FormatError(f"this is not the state of a batch: {error}") from error
        at += _HEAD.size
        yield partition, Carried.from_bytes(state[at : at + length])
        at += length
