"""Order restored inside Spark, from a real broker: keys move, and the query is started again from its checkpoint."""

from __future__ import annotations

import pytest
from tests.kafka.test_consumer import Writer, total

from unskew.errors import ArgumentError
from unskew.kafka.messages import CLOSE, OPEN, Mark

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


@pytest.mark.slow
def test_each_keys_messages_come_in_order_across_a_restart(broker, new_topic, spark, tmp_path):
    from unskew.kafka import read_ordered

    topic = new_topic(3)
    writer = Writer(broker, topic, 3, seed=1)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "maxOffsetsPerTrigger": "45"}
    seen, partitions, batches = {}, {}, []

    def take(rows, batch_id):
        batches.append(batch_id)
        for task in rows.rdd.glom().collect():
            for row in task:
                seen.setdefault(bytes(row.key), []).append(bytes(row.value))
                partitions.setdefault(bytes(row.key), set()).add(row.partition)

    def run():
        stream = read_ordered(spark, topic, options, groups=2)
        query = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination(200)

    for repeat in (False, True):
        writer.batch(40, repeat)
    writer.produce(1, b"late", None, Mark(OPEN, 11, neighbour=10, partition=0))
    writer.produce(1, b"late", b"2", Mark())
    writer.producer.flush()
    run()
    assert len(batches) > 2
    assert b"late" not in seen, "it waits in the checkpoint"
    writer.produce(0, b"late", b"1", Mark())
    writer.produce(0, b"late", None, Mark(CLOSE, 10, neighbour=11, partition=1))
    writer.batch(40, repeat=True)
    run()
    assert seen.pop(b"late") == [b"1", b"2"]
    assert batches == sorted(set(batches))
    assert sum(map(len, seen.values())) == total(writer)
    assert seen == writer.sent
    assert any(len(places) > 1 for places in partitions.values())


def test_wrong_use_is_refused(spark):
    from unskew.kafka import read_ordered

    with pytest.raises(ArgumentError, match="no broker is given"):
        read_ordered(spark, "t", {})
    with pytest.raises(ArgumentError, match="groups must be at least 1"):
        read_ordered(spark, "t", {"kafka.bootstrap.servers": "x:1"}, groups=0)
