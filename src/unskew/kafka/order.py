"""Per-key order restored behind a gateway: a state machine without Kafka inside. Records in, actions out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

from unskew.errors import ArgumentError, StateError
from unskew.kafka.holds import Spill
from unskew.kafka.messages import CLOSE, DATA, OPEN, Mark, Record
from unskew.kafka.partition import Done, Hold, OpenSet, Partition
from unskew.kafka.snapshot import Carried, Snapshot


@dataclass(frozen=True, slots=True)
class Process:
    """Hand the record to the application."""

    record: Record


@dataclass(frozen=True, slots=True)
class SendDone:
    """Tell control partition `target` that every message of the key up to the end of set `set_id` is processed."""

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
    """Something that should not happen: messages of a set are missing, a key waits long, or was not waited for."""

    kind: Literal["count_mismatch", "long_hold", "order_violation"]
    key: bytes
    set_id: int
    text: str


Action = Process | SendDone | Install | Alarm


class OrderMachine:
    """Puts each key's messages back into the gateway's order when the key moves from partition to partition.

    A key that moves away from partition p ends there with a closing marker and begins at q with an opening one. The
    owner of p, when it has processed everything up to the closing marker, says so to the owner of q (`SendDone`);
    until then q's owner holds the key's messages back. All other keys flow.

    Guarantees, whatever the interleaving of partitions, hand-overs and crashes: the first time that each message of
    a key is processed follows the gateway's order; nothing is lost; a numbered message that the gateway wrote twice
    is processed once (without numbers it comes as often as it was written); after a crash and `restore` only messages
    processed since that snapshot come again. No order is promised between keys.

    Actions must be carried out in the order in which they are returned. What was sent must have arrived before a
    snapshot is stored.

    Costs a few dictionary look-ups a message. Memory: one entry for each key on hold, for each open set (at most
    `max_sets` a partition, beyond which only their counts go unchecked), and for each hand-over that came early; held
    messages are bounded by the `Spill`.

    Parameters
    ----------
    spill
        Where held messages are kept.
    hold_seconds
        How long a key may wait for the owner of the set before; None for ever.
    on_timeout
        ``"fail"`` raises `StateError`; ``"release"`` goes on without, and counts an order violation.
    done_seconds
        How long a hand-over is remembered whose set has not begun.
    alarm_seconds
        How long a key waits before there is an `Alarm`, one for each set that it waits for.
    drain_limit
        Held messages returned by one call at most; `advance` returns more.
    max_sets
        Open sets whose messages are counted, in each partition.

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
    Bhattacharya and Wood, SMALOPS, the section on reconciling split state; the failure cases are ours.
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
            raise ArgumentError("on_timeout is fail or release", got=on_timeout)
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
        """Take over a partition that has no snapshot, from an offset on."""
        self.restore(partition, Snapshot(safe_offset=offset, resume_offset=offset))

    def restore(self, partition: int, snapshot: Snapshot) -> None:
        """Take over a partition as it was; records are expected from ``snapshot.safe_offset`` on."""
        self.revoke(partition)
        self._partitions[partition] = Partition(
            position=snapshot.safe_offset,
            resume_at=snapshot.resume_offset,
            control_offset=snapshot.control_offset,
            unfinished=dict(snapshot.unfinished),
            sequences=dict(snapshot.sequences),
            sets={key: OpenSet(*opened) for key, opened in snapshot.sets.items()},
            dones={key: Done(*done) for key, done in snapshot.dones.items()},
            begins=dict(snapshot.begins),
        )

    def carry(self, partition: int) -> Carried:
        """Return everything about a partition, held messages too, for whoever cannot read them again.

        Between two calls of the machine, with nothing left for `advance`.
        """
        part, snapshot = self._partitions[partition], self.snapshot(partition)
        if any(hold.waiting is None for hold in part.holds.values()):
            raise StateError("messages are ready to be processed", where=f"partition {partition}", hint="advance first")
        held = [record for hold in part.holds.values() for record in hold.queue]
        for key, hold in part.holds.items():
            mark = Mark(OPEN, hold.set_id, neighbour=hold.waiting, partition=hold.origin)
            held.append(Record(partition, hold.opened_at, key, None, mark.headers(), hold.opened_ms))
        since = {key: hold.since for key, hold in part.holds.items()}
        alarmed = tuple(key for key, hold in part.holds.items() if hold.alarmed)
        in_order = sorted(held, key=lambda record: record.offset)
        return Carried(snapshot, tuple(in_order), dict(part.sequences), since, alarmed)

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
        """Forget a partition."""
        known = self._partitions.pop(partition, None)
        if known is not None:
            for hold in known.holds.values():
                hold.queue.close()
            self._ready = deque((p, key) for p, key in self._ready if p != partition)

    def close(self) -> None:
        """Forget everything and give back memory and disk."""
        for partition in list(self._partitions):
            self.revoke(partition)

    def snapshot(self, partition: int) -> Snapshot:
        """Return what has to be kept so that another machine can go on from here."""
        part = self._partitions[partition]
        first = min(part.holds.values(), key=lambda hold: hold.opened_at, default=None)
        replaying = part.position < part.resume_at
        unfinished = {key: max(start, part.position) for key, start in part.unfinished.items()} if replaying else {}
        unfinished |= {
            key: hold.unfinished_from if hold.waiting is None else hold.opened_at for key, hold in part.holds.items()
        }
        return Snapshot(
            safe_offset=part.position if first is None else first.opened_at,
            resume_offset=max(part.position, part.resume_at),
            unfinished=unfinished,
            sequences=dict(part.sequences if first is None else first.sequences),
            sets={key: (opened.set_id, opened.messages) for key, opened in part.sets.items()},
            dones={key: (done.set_id, done.state, done.when) for key, done in part.dones.items()},
            control_offset=part.control_offset,
            begins=dict(part.begins),
        )

    def safe_offset(self, partition: int) -> int:
        """Return the offset that may be committed: nothing before it is held."""
        part = self._partitions[partition]
        return min((hold.opened_at for hold in part.holds.values()), default=part.position)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions taken over, in order."""
        return tuple(sorted(self._partitions))

    def owns(self, partition: int) -> bool:
        """Tell whether a partition was taken over and not given up since."""
        return partition in self._partitions

    @property
    def keys_on_hold(self) -> int:
        """Keys whose messages wait."""
        return sum(len(part.holds) for part in self._partitions.values())

    @property
    def held(self) -> int:
        """Messages that wait."""
        return sum(len(hold.queue) for part in self._partitions.values() for hold in part.holds.values())

    @property
    def busy(self) -> bool:
        """Whether messages wait that nothing holds back any more; `advance` returns them."""
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
        if mark.flag == DATA:
            opened = part.sets.get(key)
            if opened is not None:
                opened.messages += 1
            return [Process(record)]
        if mark.flag == CLOSE:
            return self._close(part, key, mark)
        return self._open(part, record, mark, before, now)

    def on_done(
        self,
        partition: int,
        key: bytes,
        set_id: int,
        state: bytes | None = None,
        now: float = 0.0,
        control_offset: int | None = None,
    ) -> list[Action]:
        """Take a hand-over from control partition `partition`; return what to do. Repeated ones change nothing."""
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

        Nobody will hand over what ended there before. A closing marker is not younger than the opening one behind it,
        so sets that were opened before that time, by the clocks of who writes, need not wait for `origin`.
        """
        part = self._read_control(partition, control_offset)
        part.begins[origin] = max(timestamp_ms, part.begins.get(origin, 0))
        actions: list[Action] = []
        for key, hold in part.holds.items():
            if hold.waiting is not None and hold.origin == origin and hold.opened_ms < timestamp_ms:
                actions += self._release(partition, key, hold)
        return actions + self.advance(now)

    def on_time(self, now: float) -> list[Action]:
        """Look at the clock: forget old hand-overs; raise an alarm or give up waiting where that is due."""
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
        """Return the next of the messages that nothing holds back any more, `drain_limit` at most."""
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
            if mark.flag == DATA:
                opened = part.sets.get(key)
                if opened is not None:
                    opened.messages += 1
                actions.append(Process(record))
            elif mark.flag == CLOSE:
                actions += self._close(part, key, mark)
            else:
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

    def _close(self, part: Partition, key: bytes, mark: Mark) -> list[Action]:
        assert mark.set_id is not None and mark.partition is not None
        opened = part.sets.pop(key, None)
        actions: list[Action] = []
        if mark.messages is not None and opened is not None and opened.messages != mark.messages:
            text = f"{opened.messages} messages arrived of {mark.messages}"
            actions.append(Alarm("count_mismatch", key, mark.set_id, text))
        return [*actions, SendDone(key, mark.set_id, mark.partition)]

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
                hint="is the consumer of its old partition running? on_timeout='release' gives up its order",
            )
        self.order_violations += 1
        alarm = Alarm("order_violation", key, hold.set_id, f"set {hold.waiting} was not waited for")
        return [alarm, *self._release(partition, key, hold)]
