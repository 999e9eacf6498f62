"""Jobs without code that read a topic and write one, on a real broker."""

from __future__ import annotations

import json

import pytest

from unskew.jobs.connectors import connector_settings
from unskew.jobs.job import Job
from unskew.kafka.jars import connector_jars

pytestmark = [pytest.mark.kafka]


@pytest.mark.slow
@pytest.mark.spark
def test_a_job_reads_a_topic_and_writes_another(broker, new_topic, spark, tmp_path):
    from confluent_kafka import Consumer, Producer, TopicPartition

    from unskew.jobs.run import run
    from unskew.jobs.view import NoView

    source, sink = new_topic(2), new_topic(1)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(60):
        user = f"user{number % 3}"
        producer.produce(source, json.dumps({"user": user, "amount": number}), user)
    producer.flush()
    job = Job(
        source=f"kafka:{broker.bootstrap}/{source}",
        sink=f"kafka:{broker.bootstrap}/{sink}",
        schema="user string, amount long",
        key="user",
        aggregate="count, sum(amount) as total",
        channels=2,
        checkpoint=str(tmp_path / "checkpoint"),
    )
    outcome = run(job, NoView())
    assert outcome.rows == 60
    reader = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "sink", "auto.offset.reset": "earliest"})
    reader.assign([TopicPartition(sink, 0, 0)])
    written = {}
    for message in reader.consume(3, 20):
        written[message.key().decode()] = json.loads(message.value())
    reader.close()
    assert {user: (row["count"], row["total"]) for user, row in written.items()} == {
        f"user{k}": (20, sum(range(k, 60, 3))) for k in range(3)
    }


@pytest.mark.slow
@pytest.mark.spark
def test_advice_on_a_topic(broker, new_topic, spark):
    from confluent_kafka import Producer

    from unskew.advice.command import Asked, answer

    topic = new_topic(2)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(600):
        producer.produce(topic, json.dumps({"user": "ada" if number % 2 else f"user{number}"}))
    producer.flush()
    source = f"kafka:{broker.bootstrap}/{topic}"
    advice = answer(Asked(source=source, key="user", schema="user string", cores=4, partitions=4))
    assert (advice.hot_keys[0].key, advice.hot_keys[0].share) == ("ada", 0.5)
    assert sum(advice.partition_loads) == 600


def test_a_new_session_gets_the_connector_only_where_it_is_needed(broker):
    def made(**changed):
        given = {"source": "kafka:host:9/t", "key": "user", "aggregate": "count", "sink": "console", **changed}
        return connector_settings(Job(**given))

    jars = [str(jar) for jar in connector_jars()]
    assert made()["spark.jars"].split(",") == jars
    assert made(conf={"spark.jars": "mine.jar"})["spark.jars"].split(",") == ["mine.jar", *jars]
    assert made(source="csv:in") == {}
    assert made(packages=("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",)) == {}
