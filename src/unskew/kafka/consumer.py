"""A Kafka consumer that hands out each key's messages in the gateway's order, on confluent-kafka."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

from unskew.errors import ArgumentError, MissingPackageError, SessionError
from unskew.kafka.control import Control, ControlTopic
from unskew.kafka.costs import ConsumerCosts
from unskew.kafka.holds import Spill
from unskew.kafka.messages import Record
from unskew.kafka.order import Action, Alarm, Install, OrderMachine, Process, SendDone

FETCH_AT_MOST = 1000
CLOCK_SECONDS = 1.0


class OrderedConsumer:
    """Reads a topic that a gateway writes, as one of a group, and returns each key's messages in order.

    What `poll` returns counts as processed when `poll` is called again. Progress is stored every `commit_seconds`, in
    the control topic and as the group's offsets, which never pass a message that is held. After a crash what came
    since is returned again: each message at least once. Sequence numbers tell which (`Record.sequence`): a key's grow.

    Parameters
    ----------
    topic
        What to read.
    group
        The group of consumers that share the partitions.
    settings
        Settings of confluent-kafka: ``bootstrap.servers``, security. Passed through.
    control_topic
        Where consumers hand keys over; ``<topic>.control`` by default, created if it does not exist.
    extract
        Called with a key that leaves, after its last message here: returns the application's state of the key.
    install
        Called with a key that arrives and that state, before its first message here.
    spill
        Where held messages are kept.
    hold_seconds, on_timeout
        How long a key may wait, and what then; see `OrderMachine`.
    commit_seconds
        Time between two stores.
    on_alarm
        Called with every `Alarm`; by default they are only kept, in `alarms`.

    Examples
    --------
    It takes a broker, so it is not run here::

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
            raise MissingPackageError(
                "consumers need the package confluent-kafka", hint='pip install "unskew[kafka]"'
            ) from error
        if (extract is None) != (install is None):
            raise ArgumentError("state that is extracted must be installed", hint="give both extract and install")
        self._kafka = confluent_kafka
        self.topic, self.group = topic, group
        self._extract, self._install, self._on_alarm = extract, install, on_alarm
        self._commit_seconds = commit_seconds
        self._begin_at_the_end = settings.get("auto.offset.reset") in {"latest", "end", "largest"}
        self.machine = OrderMachine(spill, hold_seconds=hold_seconds, on_timeout=on_timeout)
        self.alarms: deque[Alarm] = deque(maxlen=1000)
        self.moves, self.move_seconds = 0, 0.0
        self.messages, self.message_seconds = 0, 0.0
        self._returned = (0, 0.0)
        self._todo: deque[Action] = deque()
        self._stored_at = self._clock_at = time.monotonic()
        self._stored: dict[int, tuple[int, int]] = {}
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
        """Return the next messages, an empty list if none came in time. Those returned before count as processed."""
        end = time.monotonic() + timeout_seconds
        self._count_time()
        while True:
            ready = self._carry_out(at_most)
            if ready:
                self._returned = len(ready), time.perf_counter()
                return ready
            now = time.monotonic()
            if now - self._stored_at >= self._commit_seconds:
                self.store()
            if now - self._clock_at >= CLOCK_SECONDS:
                self._clock_at = now
                self._todo.extend(self.machine.on_time(time.time()))
            if self.machine.busy:
                self._todo.extend(self.machine.advance())
            else:
                self._fetch(max(0.0, min(end - now, 0.1 if self.machine.keys_on_hold else CLOCK_SECONDS)), at_most)
            if not self._todo and time.monotonic() >= end:
                return []

    @property
    def costs(self) -> ConsumerCosts:
        """What messages and hand-overs cost here so far. Committed with the offsets, for the gateway's planner."""
        return ConsumerCosts(self.messages, self.message_seconds, self.moves, self.move_seconds)

    def _count_time(self) -> None:
        """Count what was returned before, with the time that the application took for it."""
        messages, since = self._returned
        if messages:
            self.messages += messages
            self.message_seconds += time.perf_counter() - since
            self._returned = (0, 0.0)

    def __iter__(self) -> Iterator[Record]:
        while True:
            yield from self.poll()

    def store(self) -> None:
        """Store progress: everything returned by earlier calls of `poll` counts as processed."""
        if self._todo:
            raise SessionError("progress can be stored between two calls of poll only")
        self._store(self.machine.partitions)

    def close(self) -> None:
        """Store progress, leave the group, give everything back."""
        if not self._todo:
            self._store(self.machine.partitions)
        self._consumer.close()
        self._control.close()
        self.machine.close()

    def __enter__(self) -> OrderedConsumer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fetch(self, seconds: float, at_most: int) -> None:
        for control in self._control.poll():
            self._take(control)
        if self._todo:
            return
        now = time.time()
        for message in self._consumer.consume(at_most, seconds):
            error = message.error()
            if error is not None:
                if error.fatal() or error.code() == self._kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise SessionError(f"Kafka says: {error.str()}", where=self.topic)
                continue
            record = Record(
                message.partition(),
                message.offset(),
                message.key(),
                message.value(),
                tuple((name, value or b"") for name, value in message.headers() or ()),
                message.timestamp()[1],
            )
            if self.machine.owns(record.partition):
                self._todo.extend(self.machine.on_record(record, now))

    def _take(self, control: Control) -> None:
        if control.key is not None and self.machine.owns(control.partition):
            actions = self.machine.on_done(
                control.partition, control.key, control.set_id, control.state, time.time(), control.offset
            )
            self._todo.extend(actions)

    def _carry_out(self, at_most: int) -> list[Record]:
        """Do what is to be done up to the next messages; return those."""
        ready: list[Record] = []
        while self._todo and len(ready) < at_most:
            if isinstance(self._todo[0], Process):
                ready.append(self._todo[0].record)
            elif ready:
                return ready  # what follows must not happen before they are processed
            else:
                self._do(self._todo[0])
            self._todo.popleft()
        return ready

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
            if self._on_alarm is not None:
                self._on_alarm(action)

    def _store(self, partitions: tuple[int, ...]) -> None:
        """Hand-overs first, then snapshots, then offsets: a crash in between repeats, and loses nothing."""
        self._stored_at = time.monotonic()
        self._control.flush()
        offsets, costs = [], self.costs.to_text()
        for partition in partitions:
            snapshot = self.machine.snapshot(partition)
            progress = (snapshot.safe_offset, max(snapshot.resume_offset, snapshot.control_offset))
            if self._stored.get(partition) != progress:
                self._stored[partition] = progress
                self._control.send_snapshot(partition, snapshot)
                offsets.append(self._kafka.TopicPartition(self.topic, partition, snapshot.safe_offset, metadata=costs))
        self._control.flush()
        if offsets:
            try:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            except self._kafka.KafkaException as error:
                # A member that was thrown out may not commit. What it stored is right all the same.
                codes = self._kafka.KafkaError
                thrown_out = {codes.UNKNOWN_MEMBER_ID, codes.ILLEGAL_GENERATION, codes.REBALANCE_IN_PROGRESS}
                if not error.args[0].retriable() and error.args[0].code() not in thrown_out:
                    raise

    def _on_assign(self, consumer: Any, partitions: list[Any]) -> None:
        for each in partitions:
            snapshot, controls = self._control.take_over(each.partition)
            if snapshot is not None:
                each.offset = snapshot.safe_offset
                self.machine.restore(each.partition, snapshot)
            else:
                each.offset = self._first_offset(consumer, each)
                self.machine.assign(each.partition, each.offset)
            for control in controls:
                self._take(control)
        consumer.assign(partitions)

    def _first_offset(self, consumer: Any, place: Any) -> int:
        """Return where a group without a snapshot begins: where it had committed, else at the beginning or the end."""
        where = self._kafka.TopicPartition(self.topic, place.partition)
        low, high = consumer.get_watermark_offsets(where, timeout=30)
        committed = consumer.committed([where], timeout=30)[0].offset
        if committed >= 0:
            return int(max(low, committed))
        return int(high if self._begin_at_the_end else low)

    def _on_revoke(self, consumer: Any, partitions: list[Any]) -> None:
        leaving = tuple(each.partition for each in partitions if self.machine.owns(each.partition))
        if not self._todo:
            self._store(leaving)
        self._drop(leaving)

    def _on_lost(self, consumer: Any, partitions: list[Any]) -> None:
        self._drop(tuple(each.partition for each in partitions))

    def _drop(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            self.machine.revoke(partition)
            self._stored.pop(partition, None)
        self._control.drop(partitions)
