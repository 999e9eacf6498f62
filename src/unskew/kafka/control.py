"""The control topic: consumers hand keys over to each other, and store where they are."""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from unskew.errors import FormatError, SessionError
from unskew.kafka.messages import SET_ID
from unskew.kafka.snapshot import Snapshot

# The topic keeps the last hand-over of each key and the last snapshot, for a week. Whoever takes a partition over
# reads all of it. Kafka compacts closed segments only, so segments are short.
SETTINGS = {
    "cleanup.policy": "compact,delete",
    "retention.ms": str(7 * 86_400_000),
    "segment.ms": str(600_000),
    "segment.bytes": str(16 << 20),
}

WAIT_SECONDS = 30.0
_DONE, _BEGIN, _SNAPSHOT = b"d", b"b", b"s"
_NO_STATE, _STATE = b"\0", b"\1"


@dataclass(frozen=True, slots=True)
class Control:
    """One record of the control topic: the hand-over of a key, a begin, a snapshot, or another group's record."""

    partition: int
    offset: int
    key: bytes | None = None  # of a hand-over
    set_id: int = 0
    state: bytes | None = None
    begin: tuple[int, int] | None = None  # a partition, and the time (ms) from which on the group reads it
    snapshot: Snapshot | None = None

    @property
    def for_machine(self) -> bool:
        return self.key is not None or self.begin is not None


class ControlTopic:
    """Reads and writes the control topic for one member of a group.

    The topic has as many partitions as the data topic, and the owner of a data partition reads the control partition
    with the same number. A hand-over goes where its key went. Groups share the topic and skip each other's records.
    """

    def __init__(self, name: str, topic: str, group: str, settings: Mapping[str, Any]) -> None:
        import confluent_kafka  # noqa: PLC0415 (optional)

        self._kafka = confluent_kafka
        self.name = name
        self._prefix = group.encode() + b"\0"
        client = {k: v for k, v in settings.items() if k not in {"auto.offset.reset", "group.id"}}
        self.partitions = ensure_topic(name, topic, client)
        self._reading = {
            **client,
            "group.id": f"{group}.control",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
        self._consumer: Any = confluent_kafka.Consumer(self._reading)
        # producers complain about settings of consumers, hence the log level
        self._producer: Any = confluent_kafka.Producer(
            {"log_level": 3, **client, "enable.idempotence": True, "linger.ms": 1, "compression.type": "lz4"}
        )
        self._positions: dict[int, int] = {}
        self._failed: list[Any] = []

    def send_done(self, partition: int, key: bytes, set_id: int, state: bytes | None) -> None:
        """Hand a key over to the owner of `partition`."""
        value = _NO_STATE if state is None else _STATE + state
        self._send(partition, _DONE + key, value, [(SET_ID, b"%d" % set_id)])

    def send_begin(self, origin: int, timestamp_ms: int) -> None:
        """Tell the owners of all other partitions from which time on the group reads `origin`."""
        for partition in range(self.partitions):
            if partition != origin:
                self._send(partition, _BEGIN + b"%d" % origin, b"%d" % timestamp_ms)

    def send_snapshot(self, partition: int, snapshot: Snapshot) -> None:
        self._send(partition, _SNAPSHOT, zlib.compress(snapshot.to_bytes(), 1))

    def flush(self) -> None:
        if self._producer.flush(WAIT_SECONDS) or self._failed:
            what = self._failed[0].str() if self._failed else "no answer"
            raise SessionError(f"cannot write to the control topic: {what}", where=self.name)

    def take_over(self, partition: int) -> tuple[Snapshot | None, list[Control]]:
        """Begin to read a partition; return its last snapshot, and the hand-overs and begins that it does not cover."""
        position, snapshot, controls = 0, None, list[Control]()
        # The end shows as an answer without messages, which the broker delays by half a second if it may.
        reader = self._kafka.Consumer({**self._reading, "fetch.wait.max.ms": 10})
        try:
            reader.assign([self._kafka.TopicPartition(self.name, partition, self._kafka.OFFSET_BEGINNING)])
            for control in self._until_end(reader):
                position, snapshot = control.offset + 1, control.snapshot or snapshot
                if control.for_machine:
                    controls.append(control)
        finally:
            reader.close()
        self._positions[partition] = position
        self._assign()
        return snapshot, [c for c in controls if snapshot is None or c.offset >= snapshot.control_offset]

    def drop(self, partitions: tuple[int, ...]) -> None:
        for partition in partitions:
            self._positions.pop(partition, None)
        self._assign()

    def poll(self) -> Iterator[Control]:
        """Yield hand-overs and begins that have come, without waiting."""
        if not self._positions:
            return
        for message in self._consumer.consume(500, 0):
            if message.error() is not None:
                check_error(message.error(), self.name)
                continue
            self._positions[message.partition()] = message.offset() + 1
            control = self._read(message)
            if control.for_machine:
                yield control

    def close(self) -> None:
        """Send what is left, and close the clients."""
        self._producer.flush(WAIT_SECONDS)
        self._producer = None  # it has no close; while it lives it looks for its broker
        self._consumer.close()

    def _until_end(self, reader: Any) -> Iterator[Control]:
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            message = reader.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is None:
                end = time.monotonic() + WAIT_SECONDS
                yield self._read(message)
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                return
            elif not error.retriable():
                raise SessionError(f"cannot read the control topic: {error.str()}", where=self.name)
        raise SessionError("cannot read the control topic: no answer", where=self.name)

    def _read(self, message: Any) -> Control:
        key, value, place = message.key() or b"", message.value(), (message.partition(), message.offset())
        if not key.startswith(self._prefix) or value is None:
            return Control(*place)
        key = key.removeprefix(self._prefix)
        kind, name = key[:1], key[1:]
        try:
            if kind == _SNAPSHOT:
                return Control(*place, snapshot=Snapshot.from_bytes(zlib.decompress(value)))
            if kind == _BEGIN:
                return Control(*place, begin=(int(name), int(value)))
            set_id = int(dict(message.headers() or ())[SET_ID])
        except (KeyError, ValueError, zlib.error) as error:
            raise FormatError("a record of the control topic is damaged", where=f"{self.name}, {place}") from error
        return Control(*place, name, set_id, value[1:] if value[:1] == _STATE else None)

    def _assign(self) -> None:
        places = [self._kafka.TopicPartition(self.name, p, at) for p, at in sorted(self._positions.items())]
        if places:
            self._consumer.assign(places)
        else:
            self._consumer.unassign()

    def _send(self, partition: int, key: bytes, value: bytes, headers: list[tuple[str, bytes]] | None = None) -> None:
        def delivered(error: Any, _: Any) -> None:
            if error is not None:
                self._failed.append(error)

        key = self._prefix + key
        self._producer.produce(self.name, value, key, partition, on_delivery=delivered, headers=headers or [])
        self._producer.poll(0)


def check_error(error: Any, where: str) -> None:
    """Raise `SessionError` if a consumer's error is permanent. After other errors the consumer tries again itself."""
    from confluent_kafka import KafkaError  # noqa: PLC0415 (optional)

    hints = {
        KafkaError.UNKNOWN_TOPIC_OR_PART: "was the topic deleted",
        KafkaError.TOPIC_AUTHORIZATION_FAILED: "consumers read the topic, and read and write the control topic",
        KafkaError.GROUP_AUTHORIZATION_FAILED: "consumers need the right to read as their group",
    }
    if error.fatal() or error.code() in hints:
        raise SessionError(f"Kafka reported an error: {error.str()}", where=where, hint=hints.get(error.code()))


def ensure_topic(name: str, like: str, settings: Mapping[str, Any]) -> int:
    """Create the control topic unless it exists, with as many partitions as topic `like`; return their number."""
    from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 (optional)
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

    admin = AdminClient({"log_level": 3, **settings})
    known = admin.list_topics(timeout=WAIT_SECONDS).topics
    if like not in known:
        raise SessionError("there is no such topic", where=like, hint="start the gateway first, or create it")
    partitions = len(known[like].partitions)
    if name in known:
        if len(known[name].partitions) != partitions:
            raise SessionError(
                f"the control topic has {len(known[name].partitions)} partitions, the topic has {partitions}",
                where=name,
                hint="a topic behind a gateway must not grow; delete the control topic when all is consumed",
            )
        return partitions
    try:
        admin.create_topics([NewTopic(name, partitions, config=SETTINGS)])[name].result(WAIT_SECONDS)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    return partitions
