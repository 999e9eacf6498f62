"""Restores each key's order behind a gateway: a state machine without Kafka inside. Records in, actions out."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from typing import Literal

from unskew.errors import ArgumentError, StateError
from unskew.kafka.holds import Spill
from unskew.kafka.messages import DATA, OPEN, Mark, Record
from unskew.kafka.partition import Hold, Partition
from unskew.kafka.snapshot import Carried, Done, OpenSet, Snapshot


@dataclass(frozen=True, slots=True)
class Process:
    """Hand the record to the application."""

    record: Record


@dataclass(frozen=True, slots=True)
class SendDone:
    """Tell control partition `target` that all messages of the key up to the end of set `set_id` are processed."""

    key: bytes
    set_id: int
    target: int


@dataclass(frozen=True, slots=True)
class Install:
    """Take over the application's state of a key, before the messages that follow."""

    key: bytes
    state: bytes


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something that should not happen: a set lacks messages, a key waits long, or a key stopped waiting."""

    kind: Literal["count_mismatch", "long_hold", "order_violation"]
    key: bytes
    set_id: int
    text: str

    def log(self) -> None:
        logging.getLogger(__name__).warning("%s of %r: %s", self.kind, self.key, self.text)


Action = Process | SendDone | Install | Alarm


class OrderMachine:
    """Puts each key's messages back into the gateway's order when the key moves from partition to partition.

    When a key moves from partition p to q, a closing marker ends its set in p and an opening marker begins the next
    one in q. Once the owner of p has processed everything up to the closing marker, it tells the owner of q
    (`SendDone`), who holds the key's messages back until then. All other keys flow.

    Guarantees, whatever the interleaving of partitions, hand-overs and crashes: messages of a key are first processed
    in the gateway's order; nothing is lost; a numbered message that the gateway wrote twice is processed once (without
    a number, as often as it was written); after a crash and `restore`, only messages processed since that snapshot
    come again. There is no order between keys.

    Carry out actions in the order in which they are returned. Store a snapshot only after everything sent has arrived.

    Costs a few dictionary look-ups a message. Memory: one entry for each key on hold, for each open set (at most
    `max_sets` a partition; beyond that, counts go unchecked), and for each hand-over that came early; the `Spill`
    bounds held messages.

    Parameters
    ----------
    spill
        Keeps held messages.
    hold_seconds
        How long a key may wait for the set before; None for ever.
    on_timeout
        ``"fail"`` raises `StateError`; ``"release"`` stops waiting, and counts an order violation.
    done_seconds
        How long to remember a hand-over whose set has not begun.
    alarm_seconds
        How long a key waits before it raises an `Alarm`, once for each set that it waits for.
    drain_limit
        How many held messages one call returns at most; `advance` returns more.
    max_sets
        How many open sets are counted in each partition.

    Examples
    --------
    Key k moves from partition 0 to 1. Its message ``b`` overtakes ``a``, and waits:

    >>> from unskew.kafka.messages import CLOSE, OPEN, Mark
    >>> machine = OrderMachine()
    >>> machine.assign(0), machine.assign(1)
    (None, None)
    >>> opening, closing = Mark(OPEN, 11, neighbour=10, partition=0), Mark(CLOSE, 10, neighbour=11, partition=1)
    >>> machine.on_record(Record(1, 0, b"k", None, opening.headers()))
    []
    >>> machine.on_record(Record(1, 1, b"k", b"b")), machine.safe_offset(1)
    ([], 0)
    >>> [action.record.value for action in machine.on_record(Record(0, 0, b"k", b"a"))]
    [b'a']
    >>> machine.on_record(Record(0, 1, b"k", None, closing.headers()))
    [SendDone(key=b'k', set_id=10, target=1)]
    >>> [action.record.value for action in machine.on_done(1, b"k", 10)], machine.safe_offset(1)
    ([b'b'], 2)

    References
    ----------
    Bhattacharya and Wood, SMALOPS, on reconciling split state. The failure cases are ours.
    """

    def __init__(
        self,
        spill: Spill | None = None,
        *,
        hold_seconds: float | None = None,
        on_timeout: Literal["fail", "release"] = "fail",
        done_seconds: float = 7 * 86_400.0,
        alarm_seconds: float = 300.0,
        drain_limit: int = 10_000,
        max_sets: int = 100_000,
    ) -> None:
        if on_timeout not in {"fail", "release"}:
            raise ArgumentError("on_timeout must be 'fail' or 'release'", got=on_timeout)
        if drain_limit < 1:
            raise ArgumentError("drain_limit must be at least 1", got=drain_limit)
        self._spill = spill or Spill()
        self._hold_seconds, self._on_timeout, self._done_seconds = hold_seconds, on_timeout, done_seconds
        self._alarm_seconds, self._drain_limit, self._max_sets = alarm_seconds, drain_limit, max_sets
        self._partitions: dict[int, Partition] = {}
        self._ready: deque[tuple[int, bytes]] = deque()
        self.duplicates = 0
        self.order_violations = 0

    def assign(self, partition: int, offset: int = 0) -> None:
        """Take over a partition that has no snapshot, starting at an offset."""
        self.restore(partition, Snapshot(safe_offset=offset, resume_offset=offset))

    def restore(self, partition: int, snapshot: Snapshot) -> None:
        """Take over a partition as it was; records are expected from ``snapshot.safe_offset`` on."""
        self.revoke(partition)
        self._partitions[partition] = Partition.of(snapshot)

    def carry(self, partition: int) -> Carried:
        """Return everything about a partition, held messages too, for callers that cannot read them again.

        Call it only when nothing is left for `advance`.
        """
        part = self._partitions[partition]
        if any(hold.waiting is None for hold in part.holds.values()):
            raise StateError("messages are ready to be processed", where=f"partition {partition}", hint="advance first")
        return part.carried(partition)

    def take_up(self, partition: int, carried: Carried) -> None:
        """Go on with a partition where `carry` left it; records are expected from its resume offset on."""
        self.restore(partition, carried.snapshot)
        part = self._partitions[partition]
        for record in carried.held:
            self.on_record(record, carried.since[record.key or b""])
        part.position, part.sequences = carried.snapshot.resume_offset, dict(carried.sequences)
        part.unfinished.clear()
        for key in carried.alarmed:
            part.holds[key].alarmed = True

    def revoke(self, partition: int) -> None:
        known = self._partitions.pop(partition, None)
        if known is not None:
            for hold in known.holds.values():
                hold.queue.close()
            self._ready = deque((p, key) for p, key in self._ready if p != partition)

    def close(self) -> None:
        """Forget everything and free memory and disk."""
        for partition in list(self._partitions):
            self.revoke(partition)

    def snapshot(self, partition: int) -> Snapshot:
        """Return what has to be kept so that another machine can go on from here."""
        return self._partitions[partition].snapshot()

    def safe_offset(self, partition: int) -> int:
        """Return the offset that may be committed: nothing before it is held."""
        return self._partitions[partition].safe_offset

    @property
    def partitions(self) -> tuple[int, ...]:
        return tuple(sorted(self._partitions))

    def owns(self, partition: int) -> bool:
        return partition in self._partitions

    @property
    def keys_on_hold(self) -> int:
        return sum(len(part.holds) for part in self._partitions.values())

    @property
    def held(self) -> int:
        return sum(len(hold.queue) for part in self._partitions.values() for hold in part.holds.values())

    @property
    def busy(self) -> bool:
        """Whether some messages need wait no longer; `advance` returns them."""
        return bool(self._ready)

    def on_record(self, record: Record, now: float = 0.0) -> list[Action]:
        """Take the next record of a partition; return what to do."""
        part = self._partitions[record.partition]
        if record.offset < part.position:
            return []
        part.position = record.offset + 1
        mark = Mark.of(record.headers)
        before = dict(part.sequences) if mark.flag == OPEN else {}
        if mark.sequence is not None:
            if mark.sequence <= part.sequences.get(mark.lane, -1):
                self.duplicates += 1
                return []
            part.sequences[mark.lane] = mark.sequence
        key = record.key
        if record.offset < part.resume_at:
            if key is None or record.offset < part.unfinished.get(key, part.resume_at):
                return []
        elif part.unfinished:
            part.unfinished.clear()
        if key is None:
            return [Process(record)]
        hold = part.holds.get(key)
        if hold is not None:
            if mark.flag == OPEN:
                hold.opens.append((record.offset, before))
            hold.queue.append(record)
            return []
        return self._open(part, record, mark, before, now) if mark.flag == OPEN else _deliver(part, key, record, mark)

    def on_done(
        self,
        partition: int,
        key: bytes,
        set_id: int,
        state: bytes | None = None,
        now: float = 0.0,
        control_offset: int | None = None,
    ) -> list[Action]:
        """Take a hand-over from control partition `partition`; return what to do. Repeats change nothing."""
        part = self._read_control(partition, control_offset)
        known, opened = part.dones.get(key), part.sets.get(key)
        if (known is not None and known.set_id >= set_id) or (opened is not None and opened.set_id > set_id):
            return []
        part.dones[key] = Done(set_id, state, now)
        hold = part.holds.get(key)
        if hold is None or hold.waiting is None or hold.waiting > set_id:
            return []
        return self._release(partition, key, hold) + self.advance(now)

    def on_begin(
        self, partition: int, origin: int, timestamp_ms: int, now: float = 0.0, control_offset: int | None = None
    ) -> list[Action]:
        """Learn that partition `origin` is read from a time on; return what to do in `partition`.

        Nobody will hand over what ended there earlier. A closing marker is not younger than the opening one that
        follows it, so sets that were opened before that time, by the writers' clocks, need not wait for `origin`.
        """
        part = self._read_control(partition, control_offset)
        part.begins[origin] = max(timestamp_ms, part.begins.get(origin, 0))
        actions: list[Action] = []
        for key, hold in part.holds.items():
            if hold.waiting is not None and hold.origin == origin and hold.opened_ms < timestamp_ms:
                actions += self._release(partition, key, hold)
        return actions + self.advance(now)

    def on_time(self, now: float) -> list[Action]:
        """Forget old hand-overs; raise an alarm or stop waiting where that is due."""
        actions: list[Action] = []
        for partition, part in self._partitions.items():
            for key in [key for key, done in part.dones.items() if now - done.when > self._done_seconds]:
                del part.dones[key]
            for key, hold in part.holds.items():
                waited = now - hold.since
                if hold.waiting is None:
                    continue
                if self._hold_seconds is not None and waited > self._hold_seconds:
                    actions += self._give_up(partition, key, hold)
                elif waited > self._alarm_seconds and not hold.alarmed:
                    hold.alarmed = True
                    text = f"it has waited {waited:.0f} s for the end of set {hold.waiting} in partition {hold.origin}"
                    actions.append(Alarm("long_hold", key, hold.set_id, text))
        return actions + self.advance(now)

    def advance(self, now: float = 0.0) -> list[Action]:
        """Return the next messages that need wait no longer, `drain_limit` at most."""
        actions: list[Action] = []
        while self._ready and len(actions) < self._drain_limit:
            partition, key = self._ready[0]
            part = self._partitions[partition]
            hold = part.holds[key]
            self._drain(part, key, hold, actions, now)
            if hold.waiting is not None:
                self._ready.popleft()
            elif not len(hold.queue):
                self._ready.popleft()
                hold.queue.close()
                del part.holds[key]
        return actions

    def _read_control(self, partition: int, offset: int | None) -> Partition:
        part = self._partitions[partition]
        if offset is not None:
            part.control_offset = max(part.control_offset, offset + 1)
        return part

    def _drain(self, part: Partition, key: bytes, hold: Hold, actions: list[Action], now: float) -> None:
        while len(hold.queue) and len(actions) < self._drain_limit:
            record = hold.queue.popleft()
            hold.unfinished_from = record.offset + 1
            mark = Mark.of(record.headers)
            if mark.flag != OPEN:
                actions += _deliver(part, key, record, mark)
                continue
            hold.opened_at, hold.sequences = hold.opens.popleft()
            if not part.may_begin(record, mark):
                hold.wait(record, mark, now)
                return
            assert mark.set_id is not None and mark.neighbour is not None
            actions += self._begin(part, key, mark.set_id, mark.neighbour)

    def _open(self, part: Partition, record: Record, mark: Mark, sequences: dict[str, int], now: float) -> list[Action]:
        key = record.key
        assert key is not None and mark.set_id is not None and mark.neighbour is not None
        opened = part.sets.get(key)
        if opened is not None and opened.set_id >= mark.set_id:
            return []  # written twice, by a gateway that does not number its markers
        if part.may_begin(record, mark):
            return self._begin(part, key, mark.set_id, mark.neighbour)
        part.sets.pop(key, None)
        part.holds[key] = hold = Hold(record.offset, sequences, record.offset, self._spill.queue())
        hold.wait(record, mark, now)
        return []

    def _begin(self, part: Partition, key: bytes, set_id: int, previous: int) -> list[Action]:
        done = part.dones.get(key)
        part.sets.pop(key, None)
        part.sets[key] = OpenSet(set_id)
        if len(part.sets) > self._max_sets:
            del part.sets[next(iter(part.sets))]
        if done is None or done.set_id != previous:
            return []
        del part.dones[key]
        return [] if done.state is None else [Install(key, done.state)]

    def _release(self, partition: int, key: bytes, hold: Hold) -> list[Action]:
        assert hold.waiting is not None
        actions = self._begin(self._partitions[partition], key, hold.set_id, hold.waiting)
        hold.waiting = None
        self._ready.append((partition, key))
        return actions

    def _give_up(self, partition: int, key: bytes, hold: Hold) -> list[Action]:
        if self._on_timeout == "fail":
            raise StateError(
                f"nobody has finished set {hold.waiting} of key {key!r} within {self._hold_seconds} s",
                where=f"partition {partition}",
                hint="check the consumer of its old partition, or give up the order with on_timeout='release'",
            )
        self.order_violations += 1
        alarm = Alarm("order_violation", key, hold.set_id, f"it no longer waits for set {hold.waiting}")
        return [alarm, *self._release(partition, key, hold)]


def _deliver(part: Partition, key: bytes, record: Record, mark: Mark) -> list[Action]:
    """Process a message, or end its set if it is a closing marker."""
    if mark.flag == DATA:
        part.count(key)
        return [Process(record)]
    assert mark.set_id is not None and mark.partition is not None
    opened = part.sets.pop(key, None)
    done = SendDone(key, mark.set_id, mark.partition)
    if mark.messages is None or opened is None or opened.messages == mark.messages:
        return [done]
    text = f"{opened.messages} messages arrived of {mark.messages}"
    return [Alarm("count_mismatch", key, mark.set_id, text), done]
