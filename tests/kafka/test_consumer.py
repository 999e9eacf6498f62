"""The consumer on a real broker, fed by a gateway that is a loop in this file."""

from __future__ import annotations

import random

import pytest

from unskew.errors import ArgumentError, SessionError
from unskew.kafka.consumer import OrderedConsumer
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.messages import Mark

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
        if sum(map(len, seen.values())) >= wanted:
            return
    raise AssertionError(f"{sum(map(len, seen.values()))} of {wanted} messages came")


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

    first._consumer.close()  # it goes without storing anything more
    first.machine.close()
    writer.batch(40)
    read([second], total(writer), seen)
    assert seen == writer.sent
    committed = second._consumer.committed([second._kafka.TopicPartition(topic, p) for p in range(3)], timeout=10)
    second.poll(0.0)
    assert [each.offset for each in committed] <= [second.machine.safe_offset(p) for p in range(3)]
    second.close()


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
    with pytest.raises(ArgumentError, match="extracted must be installed"):
        OrderedConsumer("nowhere", "g", settings, extract=lambda key: None)
