"""The consumer on a real broker, fed by a gateway that is a loop in this file."""

from __future__ import annotations

import random
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from unskew.errors import ArgumentError, SessionError
from unskew.kafka.consumer import OrderedConsumer
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.messages import CLOSE, OPEN, Mark

pytestmark = pytest.mark.kafka
KEYS = [b"key%d" % i for i in range(5)]


class Writer:
    """Writes batches with moves, one of them twice."""

    def __init__(self, broker, topic, partitions, seed=0):
        from confluent_kafka import Producer

        self.producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True, "log_level": 0})
        self.topic, self.rng = topic, random.Random(seed)
        self.decision = GatewayDecision.cold(partitions, now_ms=1_700_000_000_000)
        self.sent = {key: [] for key in KEYS}

    def batch(self, rows, repeat=False):
        d = self.decision = self.decision.following(self.decision.batch_id + 1).with_moves(
            {key: self.rng.randrange(self.decision.partitions) for key in KEYS[:3]}
        )
        chosen = [self.rng.choice(KEYS) for _ in range(rows)]
        values = []
        for key in chosen:
            self.sent[key].append(b"%d" % len(self.sent[key]))
            values.append(self.sent[key][-1])
        for _ in range(1 + repeat):
            for marker in d.markers:
                self.produce(marker.partition, marker.key, None, marker.mark)
            numbers = [d.first_row_sequence] * d.partitions
            for key, value in zip(chosen, values, strict=True):
                place = d.partition_of(key)
                self.produce(place, key, value, Mark(sequence=numbers[place]))
                numbers[place] += 1
        self.producer.flush()
        self.decision = d.counted({key: chosen.count(key) for key in KEYS})

    def produce(self, partition, key, value, mark):
        self.producer.produce(self.topic, value, key, partition, headers=list(mark.headers()))


def read(consumers, wanted, seen, polls=200):
    for _ in range(polls):
        for consumer in consumers:
            for record in consumer.poll(0.1, at_most=7):
                seen.setdefault(record.key, []).append(record.value)
        if sum(map(len, map(set, seen.values()))) >= wanted:
            return
    raise AssertionError(f"{sum(map(len, seen.values()))} of {wanted} messages came")


def first_times(seen):
    return {key: list(dict.fromkeys(values)) for key, values in seen.items()}


def total(writer):
    return sum(map(len, writer.sent.values()))


@pytest.mark.slow
def test_a_group_of_two_with_one_that_joins_late_and_one_that_dies(broker, new_topic):
    topic = new_topic(3)
    settings = {"bootstrap.servers": broker.bootstrap, "session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    writer = Writer(broker, topic, 3)
    for repeat in (False, True, False):
        writer.batch(30, repeat)
    seen = {}
    first = OrderedConsumer(topic, "g", settings, commit_seconds=0.0)
    read([first], total(writer), seen)
    assert seen == {key: values for key, values in writer.sent.items() if values}
    assert first.machine.duplicates > 0 and not first.alarms

    second = OrderedConsumer(topic, "g", settings, commit_seconds=0.0)
    for _ in range(50):
        for consumer in (first, second):
            consumer.poll(0.1)
        if first.machine.partitions and second.machine.partitions:
            break
    assert set(first.machine.partitions) | set(second.machine.partitions) == {0, 1, 2}
    writer.batch(40)
    writer.batch(40)
    read([first, second], total(writer), seen)
    assert seen == writer.sent

    with pytest.raises(HandlerError), first:  # it goes without storing anything more
        raise HandlerError
    writer.batch(40)
    read([second], total(writer), seen)
    assert first_times(seen) == writer.sent
    second.close()


def committed(consumer, partition):
    place = consumer._kafka.TopicPartition(consumer.topic, partition)
    return consumer._consumer.committed([place], timeout=10)[0].offset


def test_what_is_committed_does_not_pass_what_is_held(broker, new_topic):
    topic = new_topic(2)
    writer = Writer(broker, topic, 2)
    writer.produce(1, b"x", b"0", Mark())
    writer.produce(1, b"k", None, Mark(OPEN, 11, neighbour=10, partition=0))
    writer.produce(1, b"x", b"1", Mark())
    writer.produce(1, b"k", b"held", Mark())
    writer.produce(1, b"x", b"2", Mark())
    writer.producer.flush()
    settings = {"bootstrap.servers": broker.bootstrap}
    seen = {}
    with OrderedConsumer(topic, "g", settings) as first:
        read([first], 3, seen)
        first.store()
        assert committed(first, 1) == 1
        for set_id in range(20):
            first._control.send_done(1, b"another", set_id, None)
        first._control.flush()
        while first.machine.snapshot(1).control_offset < 20:
            assert first.poll(0.1) == []
        first.store()
        writer.produce(1, b"x", b"3", Mark())
        writer.producer.flush()
        read([first], 4, seen)
        first.store()
        assert committed(first, 1) == 1
    with OrderedConsumer(topic, "g", settings) as second:
        while not second.machine.held:
            assert second.poll(0.1) == [], "messages of x in between are not processed again"
        writer.produce(0, b"k", None, Mark(CLOSE, 10, neighbour=11, partition=1))
        writer.producer.flush()
        read([second], 5, seen)
        second.store()
        assert committed(second, 1) == 6
    assert seen == {b"x": [b"0", b"1", b"2", b"3"], b"k": [b"held"]}


@pytest.mark.slow
def test_state_follows_its_key(broker, new_topic):
    """Two applications that add up numbers per key, each with a memory of its own."""
    topic = new_topic(2)
    settings = {"bootstrap.servers": broker.bootstrap}
    writer = Writer(broker, topic, 2, seed=3)
    memories = [{}, {}]
    consumers = []
    for memory in memories:
        consumers.append(
            OrderedConsumer(
                topic,
                "sums",
                settings,
                extract=lambda key, m=memory: b"%d" % m.pop(key, 0),
                install=lambda key, state, m=memory: m.__setitem__(key, int(state)),
            )
        )
    for _ in range(60):
        for consumer in consumers:
            consumer.poll(0.1)
        if all(len(consumer.machine.partitions) == 1 for consumer in consumers):
            break
    for _ in range(5):
        writer.batch(30)
    done = 0
    for _ in range(100):
        for consumer, memory in zip(consumers, memories, strict=True):
            for record in consumer.poll(0.05):
                memory[record.key] = memory.get(record.key, 0) + int(record.value)
                done += 1
        if done == total(writer):
            break
    for consumer in consumers:
        consumer.close()
    sums = {key: sum(int(value) for value in values) for key, values in writer.sent.items()}
    totals = {key: sum(memory.get(key, 0) for memory in memories) for key in KEYS}
    assert totals == sums
    assert sum(consumer.moves for consumer in consumers) > 0


def numbered(broker, topic, count):
    """Write 0, 1, 2, ... to partition 0."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, b"%d" % number, b"key%d" % (number % 3), 0)
    producer.flush()


def taken(records, count):
    """Take so many messages out of a loop, and break."""
    found = []
    for record in records:
        found.append(int(record.value))
        if len(found) == count:
            break
    return found


class HandlerError(Exception):
    pass


def test_messages_that_were_not_handled_come_again(broker, new_topic):
    topic = new_topic(1)
    numbered(broker, topic, 20)

    def made():
        return OrderedConsumer(topic, "g", {"bootstrap.servers": broker.bootstrap})

    with pytest.raises(HandlerError), made() as consumer:
        for record in consumer:
            if record.value == b"5":
                raise HandlerError
    with made() as consumer:
        assert taken(consumer, 3) == [0, 1, 2]
        assert taken(consumer, 3) == [3, 4, 5], "a second loop goes on"
    with pytest.raises(HandlerError), made() as consumer:
        assert taken(consumer, 3) == [6, 7, 8], "what was handled when the block ended is stored, and no more"
        raise HandlerError
    consumer = made()
    assert taken(consumer, 2) == [6, 7]
    consumer.store()
    assert [int(record.value) for record in consumer.poll(5.0, at_most=4)] == [8, 9, 10, 11]
    consumer.close()
    consumer = made()
    assert taken(consumer, 12) == list(range(8, 20)), "they were not confirmed"
    assert consumer.poll(0.5) == []
    consumer.close()
    with made() as consumer:
        assert consumer.poll(1.0) == [], "these were, by another poll"


def test_a_function_that_fails_is_called_again_and_nothing_is_lost(broker, new_topic):
    """Key k moves from partition 0 to 1; its state is refused at first, on either side."""
    topic = new_topic(2)
    writer = Writer(broker, topic, 2)
    writer.produce(0, b"k", b"1", Mark())
    writer.produce(0, b"k", None, Mark(CLOSE, 10, neighbour=11, partition=1))
    writer.produce(1, b"k", None, Mark(OPEN, 11, neighbour=10, partition=0))
    writer.produce(1, b"k", b"2", Mark())
    writer.producer.flush()
    calls, values = [], []

    def extract(key):
        calls.append("extract")
        if len(calls) == 1:
            raise HandlerError
        return b"state"

    def install(key, state):
        calls.append("install")
        if len(calls) == 3:
            raise HandlerError

    settings = {"bootstrap.servers": broker.bootstrap}
    with OrderedConsumer(topic, "g", settings, extract=extract, install=install, commit_seconds=0.0) as consumer:
        for _ in range(100):
            try:
                values += [record.value for record in consumer.poll(0.1)]
            except HandlerError:
                continue
            if len(values) == 2:
                break
    assert values == [b"1", b"2"]
    assert calls == ["extract", "extract", "install", "install"]


@pytest.mark.slow
def test_a_member_that_was_thrown_out_does_not_write_over_its_successor(broker, new_topic):
    topic = new_topic(1)
    numbered(broker, topic, 20)
    settings = {"bootstrap.servers": broker.bootstrap, "session.timeout.ms": 6000}
    slow = OrderedConsumer(topic, "g", {**settings, "max.poll.interval.ms": 6000}, commit_seconds=1000.0)
    assert taken(slow, 5) == [0, 1, 2, 3, 4]
    with OrderedConsumer(topic, "g", settings) as second:
        assert taken(second, 20) == list(range(20)), "it has waited until the first one's time was over"
        second.store()
        slow.store()
        stored, _ = second._control.take_over(0)
        assert stored is not None and stored.safe_offset == 20
    slow.close()


def test_a_group_that_begins_late_does_not_wait_for_what_was_removed(broker, new_topic):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    topic = new_topic(2)
    writer = Writer(broker, topic, 2)

    def write(milliseconds, partition, key, value, mark=None):
        headers = [] if mark is None else list(mark.headers())
        writer.producer.produce(topic, value, key, partition, headers=headers, timestamp=milliseconds)
        writer.producer.flush()

    now = int(time.time() * 1000)
    write(now, 0, b"k", b"removed")
    write(now, 0, b"k", None, Mark(CLOSE, 10, neighbour=11, partition=1))
    write(now, 1, b"k", None, Mark(OPEN, 11, neighbour=10, partition=0))
    write(now, 1, b"k", b"1")
    write(now + 50, 0, b"x", b"0")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for removed in admin.delete_records([TopicPartition(topic, 0, 2)]).values():
        assert removed.result(30).low_watermark == 2
    seen = {}
    with OrderedConsumer(topic, "late", {"bootstrap.servers": broker.bootstrap}) as consumer:
        read([consumer], 2, seen)
        assert seen == {b"x": [b"0"], b"k": [b"1"]}
        assert consumer.machine.order_violations == 0
        write(now + 60, 1, b"m", None, Mark(OPEN, 13, neighbour=12, partition=0))
        write(now + 60, 1, b"m", b"2")
        while not consumer.machine.held:
            assert consumer.poll(0.1) == [], "this one moved later, and waits"
        write(now + 60, 0, b"m", b"1")
        write(now + 60, 0, b"m", None, Mark(CLOSE, 12, neighbour=13, partition=1))
        read([consumer], 4, seen)
    assert seen[b"m"] == [b"1", b"2"]


def test_a_topic_made_anew_is_not_passed_over(broker, new_topic):
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = new_topic(1)
    numbered(broker, topic, 10)
    settings = {"bootstrap.servers": broker.bootstrap}
    with OrderedConsumer(topic, "g", settings) as consumer:
        assert taken(consumer, 10) == list(range(10))
    admin = AdminClient(settings)
    admin.delete_topics([topic])[topic].result(30)
    while topic in admin.list_topics(timeout=30).topics:
        time.sleep(0.1)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    numbered(broker, topic, 3)
    too_far = f"has read 10 messages of a partition that ends after 3 .* delete topic {topic}.control"
    with pytest.raises(SessionError, match=too_far), OrderedConsumer(topic, "g", settings) as consumer:
        consumer.poll(20.0)
    with OrderedConsumer(topic, "another", settings) as consumer:
        assert taken(consumer, 3) == [0, 1, 2]


class Faulty:
    """A consumer that returns an error before everything else."""

    def __init__(self, consumer, code):
        from confluent_kafka import KafkaError

        self.consumer, self.error = consumer, KafkaError(getattr(KafkaError, code))

    def poll(self, seconds):
        return SimpleNamespace(error=lambda: self.error)

    def consume(self, at_most, seconds):
        return [self.poll(seconds), *self.consumer.consume(at_most, seconds)]


def test_missing_rights_are_not_passed_over(broker, new_topic):
    topic = new_topic(1)
    consumer = OrderedConsumer(topic, "g", {"bootstrap.servers": broker.bootstrap}, commit_seconds=1000.0)
    while not consumer.machine.partitions:
        consumer.poll(0.1)
    for place, code, hint in (
        (consumer, "TOPIC_AUTHORIZATION_FAILED", "consumers read the topic"),
        (consumer, "GROUP_AUTHORIZATION_FAILED", "as their group"),
        (consumer._control, "TOPIC_AUTHORIZATION_FAILED", "consumers read the topic"),
        (consumer, "_MAX_POLL_EXCEEDED", None),
    ):
        real = place._consumer
        place._consumer = Faulty(real, code)
        raised = pytest.raises(SessionError, match=hint) if hint else nullcontext()
        with raised:
            consumer.poll(0.0)
        place._consumer = real
    consumer.close()


def test_groups_do_not_disturb_each_other(broker, new_topic):
    topic = new_topic(2)
    writer = Writer(broker, topic, 2, seed=5)
    for _ in range(3):
        writer.batch(20)
    for group in ("a", "b"):
        seen = {}
        with OrderedConsumer(topic, group, {"bootstrap.servers": broker.bootstrap}) as consumer:
            read([consumer], total(writer), seen)
        assert seen == {key: values for key, values in writer.sent.items() if values}


def test_an_ordinary_consumer_sees_the_messages_and_a_few_without_a_value(broker, new_topic):
    from confluent_kafka import Consumer

    topic = new_topic(2)
    writer = Writer(broker, topic, 2)
    writer.batch(20)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "plain", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    values = []
    for _ in range(60):
        values += [m.value() for m in consumer.consume(100, 0.5) if m.error() is None]
        if len([v for v in values if v is not None]) == 20:
            break
    consumer.close()
    assert len([v for v in values if v is not None]) == 20
    assert values.count(None) == len(writer.decision.markers) > 0


def test_wrong_use_is_refused(broker):
    settings = {"bootstrap.servers": broker.bootstrap}
    with pytest.raises(SessionError, match="no such topic"):
        OrderedConsumer("nowhere", "g", settings)
    with pytest.raises(ArgumentError, match="belong together"):
        OrderedConsumer("nowhere", "g", settings, extract=lambda key: None)
