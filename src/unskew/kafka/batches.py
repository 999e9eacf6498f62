"""Restores order batch by batch, for callers that get records in batches and keep the state in between."""

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
    """The result of a batch."""

    records: tuple[Record, ...]  # in order for each key
    state: bytes  # for the next batch
    alarms: tuple[Alarm, ...]
    duplicates: int  # messages dropped
    held: int  # messages that wait


def order_batch(
    state: bytes | None, records: Iterable[Record], now: float = 0.0, *, whole: bool = False, **machine: Any
) -> Ordered:
    """Put a batch of records in order, each partition's by offset; records that must wait stay in the state.

    A call sees all records of its keys, whatever their partition, so hand-overs need no control topic. `whole` says
    that new partitions are read from their very first message. If they are not, sets opened before the first record
    of their origin do not wait, since nobody knows what came before it. `machine` holds parameters of `OrderMachine`.
    The same state and records give the same answer, so a batch may run again.

    The state takes a few hundred bytes a partition, an entry for each open set, and the messages that wait.

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

    def carry_out() -> None:
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

    for record in records:
        if record.partition not in begins:
            begins[record.partition] = 0 if whole else record.timestamp_ms
            _own(orders, record.partition, record.offset, begins)
            for each in orders.partitions:
                todo.extend(orders.on_begin(each, record.partition, begins[record.partition], now))
        todo.extend(orders.on_record(record, now))
        carry_out()
    todo.extend(orders.on_time(now))
    carry_out()
    left = b"".join(_write(partition, orders.carry(partition)) for partition in orders.partitions)
    answer = Ordered(tuple(out), left, tuple(alarms), orders.duplicates, orders.held)
    orders.close()
    return answer


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
