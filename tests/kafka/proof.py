"""The processes of the proof: a gateway and consumers, each of its own, to be killed.

``python proof.py gateway BOOTSTRAP TOPIC PARTITIONS CHECKPOINT BATCHES ROWS`` writes and ends;
``python proof.py consumer BOOTSTRAP TOPIC GROUP FILE`` writes every message it processes to a file, until it is killed.
"""

from __future__ import annotations

import os
import sys

import numpy as np

KEYS = 200


def batch_of(number, rows):
    """Return the keys and values of a batch: skewed, with other hot keys every few batches."""
    rng = np.random.default_rng(number)
    rank = np.minimum(rng.zipf(1.3, rows) - 1, KEYS - 1)
    return (rank + 13 * (number // 3)) % KEYS, np.arange(rows, dtype=np.int64) + number * rows


def gateway(bootstrap, topic, partitions, checkpoint, batches, rows):
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    from unskew.kafka import gateway
    from unskew.kafka.jars import connector_jars
    from unskew.planners import planner
    from unskew.spark.local_session import SHORT_RUN, session

    tasks = 2

    class Reader(DataSourceStreamReader):
        def initialOffset(self):
            return {"batch": 0}

        def latestOffset(self, start=None, limit=None):
            at = 0 if start is None else start["batch"]
            return {"batch": min(at + 1, batches)}

        def partitions(self, start, end):
            return [InputPartition((n, t)) for n in range(start["batch"], end["batch"]) for t in range(tasks)]

        def read(self, partition):
            import pyarrow as pa

            number, task = partition.value
            keys, values = batch_of(number, rows)
            mine = keys % tasks == task  # every key comes from one partition of the source
            names = np.char.add("key", keys[mine].astype(str))
            yield pa.RecordBatch.from_arrays(
                [pa.array(names), pa.array(values[mine].astype(str))], names=["key", "value"]
            )

        def commit(self, end):
            pass

    class Source(DataSource):
        @classmethod
        def name(cls):
            return "proof"

        def schema(self):
            return "key string, value string"

        def streamReader(self, schema):
            return Reader()

    config = {**SHORT_RUN, "spark.jars": ",".join(map(str, connector_jars()))}
    spark = session("local[2,4]", config)
    spark.dataSource.register(Source)
    query = gateway(
        spark.readStream.format("proof").load(),
        key="key",
        topic=topic,
        options={"kafka.bootstrap.servers": bootstrap},
        planner=planner("smalops", hot_threshold=0.005),
        interval_seconds=2,
        stamp="all",
    ).start(checkpoint)
    while query.isActive:
        query.awaitTermination(1)
        progress = query.lastProgress
        if progress is not None and progress.sources[0].endOffset == f'{{"batch": {batches}}}':
            break
    if query.exception() is not None:
        raise query.exception()
    query.stop()
    spark.stop()


def consumer(bootstrap, topic, group, path):
    from unskew.kafka.consumer import OrderedConsumer

    settings = {"bootstrap.servers": bootstrap, "session.timeout.ms": 6000, "heartbeat.interval.ms": 1000}
    with OrderedConsumer(topic, group, settings, commit_seconds=2.0) as reading:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while True:
            records = reading.poll(1.0)
            # one write for all of them: a kill leaves whole lines, and O_APPEND keeps the order among consumers
            lines = [b"%s %s %d\n" % (r.key, r.value, r.sequence) for r in records]
            os.write(descriptor, b"".join(lines))


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "gateway":
        gateway(given[0], given[1], int(given[2]), given[3], int(given[4]), int(given[5]))
    else:
        consumer(*given)
