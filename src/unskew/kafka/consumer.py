"""A Kafka consumer that hands out each key's messages in the gateway's order, on confluent-kafka."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from unskew.errors import ArgumentError, MissingPackageError, SessionError
from unskew.kafka.control import Control, ControlTopic, check_error
from unskew.kafka.costs import ConsumerCosts
from unskew.kafka.holds import Spill
from unskew.kafka.messages import Record
from unskew.kafka.order import Action, Alarm, Install, OrderMachine, Process, SendDone
from unskew.kafka.snapshot import Snapshot

FETCH_AT_MOST = 1000
CLOCK_SECONDS = 1.0


class OrderedConsumer:
    """Reads a topic that a gateway writes, as a member of a group, and returns each key's messages in order.

    Messages that `poll` returned count as processed when you next call `poll` or `store`; in a loop, when it asks for
    the next message; and always when a ``with`` block ends without an exception. Progress is stored every
    `commit_seconds`, in the control topic and as the group's offsets, which never pass a message that is held. After
    a crash, messages since then come again: you get each message at least once.

    Parameters
    ----------
    topic
        The topic to read.
    group
        The group of consumers that share the partitions.
    settings
        Settings of confluent-kafka, passed through: ``bootstrap.servers``, security.
    control_topic
        Where consumers hand keys over; ``<topic>.control`` by default, created if it does not exist.
    extract
        Called with a key that leaves, after its last message here; returns the application's state of the key.
    install
        Called with a key that arrives and that state, before its first message here.
    spill
        Keeps held messages.
    hold_seconds, on_timeout
        How long a key may wait, and what happens then; see `OrderMachine`.
    commit_seconds
        Time between two stores.
    on_alarm
        Called with every `Alarm`; by default they are logged. The last thousand are in `alarms`.

    Examples
    --------
    This takes a broker, so it does not run here::

        with OrderedConsumer("clicks", "counters", {"bootstrap.servers": "127.0.0.1:9092"}) as consumer:
            for record in consumer:
                count(record.key, record.value)
    """

    def __init__(
        self,
        topic: str,
        group: str,
        settings: Mapping[str, Any],
        *,
        control_topic: str | None = None,
        extract: Callable[[bytes], bytes | None] | None = None,
        install: Callable[[bytes, bytes], None] | None = None,
        spill: Spill | None = None,
        hold_seconds: float | None = None,
        on_timeout: Literal["fail", "release"] = "fail",
        commit_seconds: float = 5.0,
        on_alarm: Callable[[Alarm], None] | None = None,
    ) -> None:
        try:
            import confluent_kafka  # noqa: PLC0415 (optional)
        except ImportError as error:
            hint = 'pip install "unskew[kafka]"'
            raise MissingPackageError("consumers need the package confluent-kafka", hint=hint) from error
        if (extract is None) != (install is None):
            raise ArgumentError("extract and install belong together", hint="give both or neither")
        self._kafka = confluent_kafka
        self.topic, self.group = topic, group
        self._extract, self._install, self._on_alarm = extract, install, on_alarm or Alarm.log
        self._commit_seconds = commit_seconds
        self._begin_at_the_end = settings.get("auto.offset.reset") in {"latest", "end", "largest"}
        self.machine = OrderMachine(spill, hold_seconds=hold_seconds, on_timeout=on_timeout, drain_limit=1)
        self.alarms: deque[Alarm] = deque(maxlen=1000)
        self.moves, self.move_seconds = 0, 0.0
        self.messages, self.message_seconds = 0, 0.0
        self._returned = (0, 0.0)
        # Received, but not seen by the machine, so no snapshot covers it. An entry makes at most one message
        # (`drain_limit`): after each of them nothing is left to do, and progress can be stored.
        self._inbox: deque[Record | Control] = deque()
        self._todo: deque[Action] = deque()
        self._ready: list[Record] = []
        self._beginning: set[int] = set()
        self._stored_at = self._clock_at = time.monotonic()
        self._stored: dict[int, Snapshot] = {}
        self._control = ControlTopic(control_topic or f"{topic}.control", topic, group, settings)
        self._consumer: Any = confluent_kafka.Consumer(
            {
                "auto.offset.reset": "earliest",
                **settings,
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "partition.assignment.strategy": "range,roundrobin",
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def poll(self, timeout_seconds: float = 1.0, at_most: int = FETCH_AT_MOST) -> list[Record]:
        """Return the next messages, or an empty list if none came in time. Earlier ones count as processed."""
        return self._poll(timeout_seconds, at_most, at_most)

    def _poll(self, timeout_seconds: float, at_most: int, fetch_at_most: int) -> list[Record]:
        end, left = time.monotonic() + timeout_seconds, timeout_seconds
        self._confirm()
        while True:
            self._look_at_the_clock()
            self._collect(at_most)
            if self._ready:
                ready, self._ready = self._ready, []
                self._returned = len(ready), time.perf_counter()
                return ready
            if left < 0:
                return []
            self._fetch(min(left, 0.1 if self.machine.keys_on_hold else CLOCK_SECONDS), fetch_at_most)
            left = end - time.monotonic()

    @property
    def costs(self) -> ConsumerCosts:
        """The cost of messages and hand-overs so far. Committed with the offsets, for the gateway's planner."""
        return ConsumerCosts(self.messages, self.message_seconds, self.moves, self.move_seconds)

    def __iter__(self) -> Iterator[Record]:
        """Yield messages for ever. If you leave the loop, the next loop or `poll` goes on where it was.

        A thousand messages must not take longer than ``max.poll.interval.ms``. If they would, use `poll` with a
        smaller `at_most`.
        """
        while True:
            yield from self._poll(1.0, 1, FETCH_AT_MOST)

    def store(self) -> None:
        """Store progress: everything returned so far counts as processed."""
        self._confirm()
        self._store(self.machine.partitions)

    def close(self) -> None:
        """Leave the group.

        Progress is stored if the last `poll` returned nothing, or you called `store` since. Otherwise the messages
        returned since progress was last stored come again.
        """
        self._leave(store=not self._returned[0])

    def __enter__(self) -> OrderedConsumer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._leave(store=kind is None)

    def _leave(self, *, store: bool) -> None:
        try:
            if store:
                self.store()
        finally:
            self._drop(self.machine.partitions)  # so that closing stores nothing
            self._consumer.close()
            self._control.close()
            self.machine.close()

    def _confirm(self) -> None:
        """Count the messages returned as processed, with the time that took, and do what had to wait for them."""
        messages, since = self._returned
        if messages:
            self.messages += messages
            self.message_seconds += time.perf_counter() - since
            self._returned = (0, 0.0)
        while self._todo and not isinstance(self._todo[0], Process):
            self._do(self._todo[0])
            self._todo.popleft()

    def _look_at_the_clock(self) -> None:
        now = time.monotonic()
        if now - self._stored_at >= self._commit_seconds:
            self._store(self.machine.partitions)
        if now - self._clock_at >= CLOCK_SECONDS:
            self._clock_at = now
            self._todo.extend(self.machine.on_time(time.time()))

    def _fetch(self, seconds: float, at_most: int) -> None:
        self._inbox.extend(self._control.poll())
        if self._inbox:
            return
        first = self._consumer.poll(seconds)  # consume would go on waiting for the number it is asked for
        if first is not None:
            self._receive([first])  # at once: a rebalance in the next call takes it away again
            self._receive(self._consumer.consume(at_most - 1, 0))

    def _receive(self, messages: list[Any]) -> None:
        self._inbox.extend(_record(message) for message in messages if message.error() is None)
        for error in filter(None, (message.error() for message in messages)):
            check_error(error, self.topic)

    def _collect(self, at_most: int) -> None:
        """Carry out actions up to the next messages, and collect those."""
        while len(self._ready) < at_most:
            if not self._todo:
                if self.machine.busy:
                    self._todo.extend(self.machine.advance(time.time()))
                elif self._inbox:
                    self._todo.extend(self._take(self._inbox.popleft()))
                else:
                    return
            elif isinstance(action := self._todo[0], Process):
                self._ready.append(action.record)
                self._todo.popleft()
            elif self._ready:
                return  # it must not happen before they are processed
            else:
                self._do(action)
                self._todo.popleft()

    def _take(self, come: Record | Control) -> list[Action]:
        if not self.machine.owns(come.partition):
            return []
        if isinstance(come, Record):
            if come.partition in self._beginning:
                self._beginning.remove(come.partition)
                self._control.send_begin(come.partition, come.timestamp_ms)
            return self.machine.on_record(come, time.time())
        if come.begin is not None:
            return self.machine.on_begin(come.partition, *come.begin, time.time(), come.offset)
        assert come.key is not None
        return self.machine.on_done(come.partition, come.key, come.set_id, come.state, time.time(), come.offset)

    def _do(self, action: Action) -> None:
        started = time.perf_counter()
        if isinstance(action, SendDone):
            state = None if self._extract is None else self._extract(action.key)
            self._control.send_done(action.target, action.key, action.set_id, state)
            self.moves += 1
            self.move_seconds += time.perf_counter() - started
        elif isinstance(action, Install):
            if self._install is not None:
                self._install(action.key, action.state)
                self.move_seconds += time.perf_counter() - started
        elif isinstance(action, Alarm):
            self.alarms.append(action)
            self._on_alarm(action)

    def _store(self, partitions: tuple[int, ...]) -> None:
        """Store hand-overs first, then offsets, then snapshots: a crash in between repeats work and loses nothing.

        A snapshot overrules the offsets. Offsets still come first because Kafka takes them from members of the group
        only, and a member that was thrown out must not overwrite the snapshot of its successor.
        """
        if self._todo or self._ready:
            return  # something has failed, and the machine is ahead of messages that wait
        self._stored_at = time.monotonic()
        self._control.flush()
        snapshots = {partition: self.machine.snapshot(partition) for partition in partitions}
        changed = {p: snapshot for p, snapshot in snapshots.items() if self._stored.get(p) != snapshot}
        if changed and self._commit(changed):
            for partition, snapshot in changed.items():
                self._control.send_snapshot(partition, snapshot)
            self._control.flush()
            self._stored |= changed

    def _commit(self, snapshots: Mapping[int, Snapshot]) -> bool:
        """Commit offsets; return whether Kafka took them. If not, we try again later, or a successor does."""
        costs, place = self.costs.to_text(), self._kafka.TopicPartition
        offsets = [place(self.topic, p, snapshot.safe_offset, metadata=costs) for p, snapshot in snapshots.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=False)
        except self._kafka.KafkaException as error:
            codes = self._kafka.KafkaError
            thrown_out = {codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION, codes.REBALANCE_IN_PROGRESS}
            if not error.args[0].retriable() and error.args[0].code() not in thrown_out:
                raise
            return False
        return True

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            where = self._kafka.TopicPartition(self.topic, each.partition)
            low, high = consumer.get_watermark_offsets(where, timeout=30)
            snapshot, controls = self._control.take_over(each.partition)
            if snapshot is not None:
                known, seen = snapshot.safe_offset, snapshot.resume_offset
                each.offset = max(low, known)
                self.machine.restore(each.partition, snapshot)
            else:
                known, seen = 0, consumer.committed([where], timeout=30)[0].offset
                each.offset = max(low, seen) if seen >= 0 else high if self._begin_at_the_end else low
                self.machine.assign(each.partition, each.offset)
            if seen > high:
                raise SessionError(
                    f"group {self.group!r} has read {seen} messages of a partition that ends after {high}",
                    where=f"{self.topic}, partition {each.partition}",
                    hint=f"if the topic was created anew, delete topic {self._control.name}, or use another group",
                )
            if each.offset > known:
                self._beginning.add(each.partition)
            self._inbox.extend(controls)
        consumer.assign(partitions)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        leaving = tuple(each.partition for each in partitions if self.machine.owns(each.partition))
        self._store(leaving)  # Kafka calls us in poll only, where everything returned is processed
        self._drop(leaving)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._drop(tuple(each.partition for each in partitions))

    def _drop(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            self.machine.revoke(partition)
            self._stored.pop(partition, None)
            self._beginning.discard(partition)
        self._inbox = deque(come for come in self._inbox if come.partition not in partitions)
        self._control.drop(partitions)


def _record(message: Any) -> Record:
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    place = message.partition(), message.offset()
    return Record(*place, message.key(), message.value(), headers, message.timestamp()[1])
