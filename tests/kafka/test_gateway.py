"""The gateway on Spark and a real broker: where rows go, in which order, and what a crash repeats."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from unskew.errors import ArgumentError, CheckpointError, ColumnError, SessionError
from unskew.kafka.consumer import OrderedConsumer
from unskew.kafka.decision import GatewayDecision, home_of
from unskew.planners import Assignment, Planner

pytestmark = [pytest.mark.kafka, pytest.mark.spark]
PARTITIONS = 3
KEYS = 7


class Turn(Planner):
    """Sends every other key one partition on: in a partition, rows with routes and without follow each other."""

    tolerance = 0.0

    def assign(self, problem, memory):
        on = np.where(problem.hashes % 5 < 3, problem.current + 1, problem.current)
        return Assignment((on % problem.channels).astype("int32"), memory=memory)


class Fails(Exception):
    pass


@pytest.fixture(scope="module")
def events(spark, tmp_path_factory):
    """Files of 40 rows each, read one a batch: key, text, and a number that grows in each key."""
    folder = str(tmp_path_factory.mktemp("events"))
    for batch in range(4):
        rows = spark.range(40 * batch, 40 * (batch + 1), numPartitions=1)
        rows.selectExpr(f"concat('k', id % {KEYS}) AS user", "id AS number").write.mode("append").json(folder)
    return spark.readStream.schema("user string, number long").option("maxFilesPerTrigger", 1).json(folder)


def settings(broker):
    return {"kafka.bootstrap.servers": broker.bootstrap}


def read(broker, topic, wanted):
    seen = {}
    with OrderedConsumer(topic, "readers", {"bootstrap.servers": broker.bootstrap}) as consumer:
        for _ in range(100):
            for record in consumer.poll(0.2):
                seen.setdefault(record.key.decode(), []).append(record)
            if sum(map(len, seen.values())) >= wanted:
                break
        alarms, duplicates = list(consumer.alarms), consumer.machine.duplicates
        left = consumer.poll(0.5)
    assert not left and not alarms
    return seen, duplicates


def values(seen):
    return {key: [int(record.value) for record in records] for key, records in seen.items()}


EXPECTED = {f"k{k}": [n for n in range(160) if n % KEYS == k] for k in range(KEYS)}


@pytest.mark.slow
def test_keys_move_and_a_batch_written_twice_is_read_once(broker, new_topic, events, tmp_path):
    from unskew.kafka import gateway

    topic, checkpoint = new_topic(PARTITIONS), str(tmp_path / "checkpoint")
    options = {"value": "number", "planner": Turn(), "interval_seconds": 0, "stamp": "all"}

    def made(fail_at=None):
        one = gateway(events, key="user", topic=topic, options=settings(broker), **options)
        write = one.write_batch

        def failing(rows, decision):
            seen = write(rows, decision)
            if decision.batch_id == fail_at:
                raise Fails  # everything is written, and Spark does not know
            return seen

        one.write_batch = failing
        return one

    first = made(fail_at=2)
    with pytest.raises(Exception, match="Fails"):
        first.start(checkpoint, trigger={"availableNow": True}).awaitTermination(120)
    second = made()
    second.start(checkpoint, trigger={"availableNow": True}).awaitTermination(120)
    assert second.decision is not None
    assert second.decision.generation == first.decision.generation + 1
    assert second.decision.epoch > first.decision.epoch

    seen, duplicates = read(broker, topic, 160)
    assert values(seen) == EXPECTED
    assert duplicates >= 40, "the rows of batch 2, and its markers"
    for records in seen.values():
        numbers = [record.sequence for record in records]
        assert numbers == sorted(set(numbers))
    moved = [key for key, records in seen.items() if len({record.partition for record in records}) > 1]
    assert 0 < len(moved) < KEYS


def test_without_routes_a_key_goes_where_kafka_sends_it(broker, new_topic, spark, events):
    from unskew.kafka import gateway

    topic = new_topic(PARTITIONS)
    one = gateway(events, key="user", topic=topic, options=settings(broker), value="number")
    one.partitions = PARTITIONS
    from unskew.kafka.spark_kafka import ensure_connector

    ensure_connector(spark)
    rows = spark.range(50).selectExpr("concat('user', id) AS user", "id AS number")
    rows = rows.unionAll(spark.sql("SELECT CAST(NULL AS STRING) AS user, 50L AS number"))
    counted = one.write_batch(rows, GatewayDecision.cold(PARTITIONS, now_ms=1_700_000_000_000))
    assert counted["rows"] == 51
    read_back = spark.read.format("kafka").options(**settings(broker), subscribe=topic, includeHeaders=True).load()
    written = read_back.collect()
    assert len(written) == 51
    assert all(row.headers is None for row in written)
    assert all(row.partition == home_of(bytes(row.key), PARTITIONS) for row in written if row.key is not None)


@pytest.mark.slow
@pytest.mark.parametrize("binary", [False, True])
def test_two_gateways_share_the_keys(broker, new_topic, events, tmp_path, binary):
    from unskew.kafka import gateway

    topic = new_topic(PARTITIONS)
    stream = events.selectExpr("CAST(user AS BINARY) AS user", "number") if binary else events
    moved = []
    for index in range(2):
        one = gateway(
            stream,
            key="user",
            topic=topic,
            options=settings(broker),
            value="number",
            planner=Turn(),
            interval_seconds=0,
            stamp="all",
            share=(index, 2),
        )
        one.start(str(tmp_path / str(index)), trigger={"availableNow": True}).awaitTermination(120)
        assert one.decision is not None
        moved.append({marker.key for marker in one.decision.markers})
    assert moved[0] and moved[1] and not moved[0] & moved[1]
    seen, _ = read(broker, topic, 160)
    assert values(seen) == EXPECTED


@pytest.mark.slow
@pytest.mark.parametrize("stamp", ["none", "moved", "all"])
def test_a_keyed_source_needs_no_shuffle(broker, new_topic, events, tmp_path, stamp):
    from unskew.kafka import gateway

    topic = new_topic(PARTITIONS)
    options = {"value": "number", "planner": Turn(), "interval_seconds": 0, "stamp": stamp, "keyed_source": True}
    one = gateway(events, key="user", topic=topic, options=settings(broker), **options)
    one.start(str(tmp_path / "checkpoint"), trigger={"availableNow": True}).awaitTermination(120)
    seen, _ = read(broker, topic, 160)
    assert values(seen) == EXPECTED
    assert one.moves > 0
    records = [record for found in seen.values() for record in found]
    numbered = sum(record.sequence is not None for record in records)
    assert {"none": numbered == 0, "moved": 0 < numbered < 160, "all": numbered == 160}[stamp]


@pytest.mark.slow
def test_a_new_checkpoint_waits_until_everything_is_read(broker, new_topic, spark, events, tmp_path, monkeypatch):
    from confluent_kafka import Consumer, Producer, TopicPartition

    from unskew.kafka import gateway, spark_gateway

    topic = new_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(topic, b"old", b"key%d" % number)
    producer.flush()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "late"})
    places = [TopicPartition(topic, partition) for partition in range(2)]
    ends = [consumer.get_watermark_offsets(place, timeout=30)[1] for place in places]
    consumer.commit(offsets=[TopicPartition(topic, p, end) for p, end in enumerate(ends)][:1], asynchronous=False)
    monkeypatch.setattr(spark_gateway, "WAIT_SECONDS", 0.0)
    one = gateway(events, key="user", topic=topic, options=settings(broker), wait_for="late")
    with pytest.raises(SessionError, match="'late' has not read everything"):
        one.open(spark, str(tmp_path / "checkpoint"))
    consumer.commit(offsets=[TopicPartition(topic, p, end) for p, end in enumerate(ends)], asynchronous=False)
    one.open(spark, str(tmp_path / "checkpoint"))
    consumer.close()


def test_a_message_refused_for_good_is_not_lost_behind_later_ones(broker, new_topic, spark, tmp_path):
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

    from unskew.kafka import gateway

    topic, admin = new_topic(1), AdminClient({"bootstrap.servers": broker.bootstrap})

    def allow(length):
        entry = ConfigEntry("max.message.bytes", str(length), incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(30)

    rows = spark.range(20).coalesce(1).selectExpr("'k' AS user", "if(id = 0, repeat('0', 3000), string(id)) AS text")
    rows.write.json(str(tmp_path / "rows"))
    stream = spark.readStream.schema("user string, text string").json(str(tmp_path / "rows"))
    options = {**settings(broker), "kafka.batch.size": "500"}  # so that the long one travels alone

    def run():
        one = gateway(stream, key="user", topic=topic, options=options, value="text", stamp="all", keyed_source=True)
        one.start(str(tmp_path / "checkpoint"), trigger={"availableNow": True}).awaitTermination(120)

    allow(1000)
    with pytest.raises(Exception, match="stage failure"):
        run()
    allow(100_000)
    run()
    texts = []
    with OrderedConsumer(topic, "readers", {"bootstrap.servers": broker.bootstrap}) as consumer:
        for _ in range(100):
            texts += [int(record.value) for record in consumer.poll(0.2)]
            if texts[-20:] == [*range(20)]:
                break
    before = texts[:-20]  # the first try ends when it learns of the refusal, sooner or later
    assert texts == [*range(1, len(before) + 1), *range(20)], "what got through before, and everything again"


@pytest.mark.slow
def test_under_another_parallelism_a_batch_gets_new_numbers(broker, new_topic, events, tmp_path):
    from unskew.kafka.spark_gateway import Gateway

    topic = new_topic(1)

    def run(parallelism, fail_at=None):
        class Sized(Gateway):
            _parallelism = parallelism

            def write_batch(self, rows, decision):
                seen = super().write_batch(rows, decision)
                if decision.batch_id == fail_at:
                    raise Fails
                return seen

        one = Sized(events, key="user", topic=topic, options=settings(broker), value="number", stamp="all")
        one.start(str(tmp_path / "checkpoint"), trigger={"availableNow": True}).awaitTermination(120)

    with pytest.raises(Exception, match="Fails"):
        run(2, fail_at=1)
    run(3)
    seen, duplicates = read(broker, topic, 200)
    assert sum(map(len, seen.values())) == 200, "batch 1 twice: its rows may be others under the same numbers"
    assert duplicates == 0
    assert {key: sorted(set(numbers)) for key, numbers in values(seen).items()} == EXPECTED


@pytest.mark.slow
def test_headers_of_another_gateway_stay_behind(broker, new_topic, spark, events):
    from unskew.kafka import gateway
    from unskew.kafka.messages import OPEN, Mark, Record
    from unskew.kafka.spark_kafka import ensure_connector

    topic = new_topic(1)
    ensure_connector(spark)
    theirs = Mark(sequence=500).headers()
    marker = Mark(OPEN, 11, neighbour=10, partition=0).headers()
    given = [("a", 0, [*theirs, ("trace", b"x")]), ("a", 1, None), ("a", 2, []), ("a", 3, list(marker))]
    rows = spark.createDataFrame(given, "user string, number long, headers array<struct<key: string, value: binary>>")
    one = gateway(rows, key="user", topic=topic, options=settings(broker), value="number", keyed_source=True)
    one.partitions = 1
    one.write_batch(rows.coalesce(1), GatewayDecision.cold(1, now_ms=1_700_000_000_000))
    written = spark.read.format("kafka").options(**settings(broker), subscribe=topic, includeHeaders=True).load()
    found = {int(row.value): [tuple(each) for each in row.headers or []] for row in written.collect()}
    assert found == {0: [("trace", bytearray(b"x"))], 1: [], 2: []}
    assert Record(0, 0, b"a", b"0", (("sm.trace", b"abc"),)).sequence is None


@dataclass(frozen=True)
class Asked(Planner):
    """Moves nothing, and remembers what it was told."""

    tolerance: float = 0.0
    move_seconds: float = 0.0
    told: list = field(default_factory=list)

    def assign(self, problem, memory):
        self.told.append((self.move_seconds, problem.use.lag_tuples.tolist()))
        return Assignment(problem.current, memory=memory)


@pytest.mark.slow
def test_what_consumers_measure_reaches_the_planner(broker, new_topic, spark, events, tmp_path):
    import time

    from tests.kafka.test_consumer import Writer, total
    from tests.kafka.test_consumer import read as read_all

    from unskew.kafka import gateway

    topic = new_topic(2)
    writer = Writer(broker, topic, 2, seed=3)
    for _ in range(4):
        writer.batch(30)
    callbacks = {"extract": lambda key: time.sleep(0.02) or b"state", "install": lambda key, state: None}
    with OrderedConsumer(topic, "sums", {"bootstrap.servers": broker.bootstrap}, **callbacks) as consumer:
        read_all([consumer], total(writer), {})
        consumer.poll(0.5)
        costs = consumer.costs
    assert costs.moves > 0 and costs.messages == total(writer)
    asked = Asked()
    options = {"value": "number", "planner": asked, "interval_seconds": 0, "consumers": "sums"}
    one = gateway(events, key="user", topic=topic, options=settings(broker), **options)
    one.start(str(tmp_path / "checkpoint"), trigger={"availableNow": True}).awaitTermination(120)
    assert asked.told[0][0] == pytest.approx(costs.move_seconds / costs.moves, rel=0.01)
    assert asked.told[0][0] >= 0.02
    assert [sum(lags) for _, lags in asked.told] == [40, 80, 120], "what the gateway wrote, and nobody reads"


def test_the_command_wants_a_checkpoint_for_a_topic_with_messages(broker, new_topic, spark, events):
    from confluent_kafka import Producer

    from unskew.cli.kafka import _refuse_a_topic_with_messages
    from unskew.kafka import gateway
    from unskew.kafka.spark_kafka import ensure_connector

    ensure_connector(spark)
    one = gateway(events, key="user", topic=new_topic(2), options=settings(broker))
    _refuse_a_topic_with_messages(spark, one)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(one.topic, b"value", b"key")
    producer.flush()
    with pytest.raises(ArgumentError, match="has messages"):
        _refuse_a_topic_with_messages(spark, one)


def test_wrong_use_is_refused(broker, new_topic, events, tmp_path):
    from unskew.kafka import gateway

    def made(**changes):
        given = {"key": "user", "topic": "nowhere", "options": settings(broker), **changes}
        return gateway(events, **given)

    with pytest.raises(ArgumentError, match="no such topic"):
        made().start(str(tmp_path / "a"))
    with pytest.raises(ColumnError, match="no such column"):
        made(key="nobody")
    with pytest.raises(ArgumentError, match="no broker is given"):
        made(options={})
    with pytest.raises(ArgumentError, match="stamp"):
        made(stamp="some")
    with pytest.raises(ArgumentError, match="share"):
        made(share=(2, 2))
    with pytest.raises(ArgumentError, match="exclude each other"):
        made(keyed_source=True, order_by="number")
    shuffled = events.repartition("user")
    with pytest.raises(ArgumentError, match="cannot be numbered"):
        gateway(shuffled, key="user", topic="t", options=settings(broker), stamp="moved")
    assert gateway(shuffled, key="user", topic="t", options=settings(broker)).stamp == "none"
    assert gateway(shuffled, key="user", topic="t", options=settings(broker), order_by="number").stamp == "moved"
    with pytest.raises(ArgumentError, match="compact"):
        made(topic=new_topic(1, {"cleanup.policy": "compact,delete"})).start(str(tmp_path / "c"))
    checkpoint = str(tmp_path / "b")
    assert made(topic=new_topic(1)).start(checkpoint, trigger={"availableNow": True}).awaitTermination(120)
    with pytest.raises(CheckpointError, match="topic"):
        made(topic=new_topic(1)).start(checkpoint)
