"""The gateway beside the same Spark job that leaves partitions to Kafka: rows per second into a local broker."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.query import StreamingQuery

from unskew.kafka import broker
from unskew.kafka.jars import connector_jars
from unskew.kafka.spark_gateway import LARGE_BATCHES, Gateway
from unskew.kafka.spark_kafka import Admin
from unskew.spark import session
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.kafka_delays import CONTENDERS, Load, Which, measure

Start = Callable[[], StreamingQuery]

PARTITIONS = 8
KEYS = 100_000
EXPONENT = 1.1
VALUE_BYTES = 100
TARGET = 0.9
PLAIN, GATEWAY = "Kafka's partitioner", "gateway, keyed source"
LARGE = f"{PLAIN}, batches as large as the gateway's"
HEADER = f"{LARGE}, a header on every row"
# of topics that nobody reads: gone before they reach the disk, whose speed is not the question
KEPT = {"segment.bytes": str(16 << 20), "retention.bytes": str(16 << 20), "file.delete.delay.ms": "1000"}


class KafkaBenchmark(Benchmark):
    """Write the same stream with Kafka's own partitioner and through the gateway; then measure how long messages wait.

    Both writers are streaming queries from the same source, with batches of the same size, one after the other. Keys
    follow Zipf's law at exponent 1.1; the gateway plans, keeps its log, writes markers and numbers the rows of keys
    that have moved. From a keyed source it needs no shuffle. The job beside it is what Spark does by default; the
    gateway's producer sends larger batches by default, and so does the job in a second run, to tell the one from the
    other. The others show what less and more costs: no row numbered, all rows numbered, a shuffle by partition for
    sources that scatter a key, and Spark without a gateway that adds a constant header to every row. Broker and Spark
    share this machine's cores.

    Rows are made on the spot, which costs next to nothing; the whole run then takes them from another topic, as in
    practice.

    The delays are those of `unskew_lab.bench.kafka_delays`, at 50 and 20 microseconds a message.
    """

    name: ClassVar[str] = "kafka"
    summary: ClassVar[str] = "rows per second through the gateway, beside Kafka's own partitioner; delays behind it"

    def run(self, quick: bool) -> list[Row]:
        settings = {"log.retention.check.interval.ms": "2000"}
        with (
            tempfile.TemporaryDirectory(prefix="unskew-bench-") as home,
            broker.start(Path(home, "broker"), settings=settings) as started,
        ):
            return [*speeds(started.bootstrap, home, quick), *delays(started.bootstrap, quick)]


def speeds(bootstrap: str, home: str, quick: bool) -> list[Row]:
    """Return rows per second of each writer, from each source."""
    rows, rounds, batches = (200_000, 1, 3) if quick else (1_000_000, 3, 3)
    spark = session(config={"spark.jars": ",".join(str(jar) for jar in connector_jars())})
    spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch complains at length
    writers = Writers(spark, bootstrap, home)
    cases = {
        f"write to {PARTITIONS} partitions, {rows:,} rows a batch": writers.starts(zipf_stream(spark, rows), "made")
    }
    if not quick:
        read = writers.starts(writers.filled(rows), "read")
        cases[f"from topic to topic, {rows:,} rows a batch"] = {name: read[name] for name in (PLAIN, LARGE, GATEWAY)}
    found = [row for case, starts in cases.items() for row in _race(case, starts, rows, rounds, batches)]
    spark.sparkContext.setLogLevel("ERROR")
    return found


def _race(case: str, starts: dict[str, Start], rows: int, rounds: int, batches: int) -> list[Row]:
    """Return rows per second of each query, in turns; the first round, and the first batch of each, only warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in starts}
    for number in range(rounds + 1):
        for name, begin in starts.items():
            taken = _batch_seconds(begin, batches + 1)
            if number:
                seconds[name] += taken[1:]
    figures = {name: [rows / each / 1e3 for each in taken] for name, taken in seconds.items()}
    medians = {name: statistics.median(taken) for name, taken in figures.items()}
    target = {GATEWAY: TARGET * medians[PLAIN]}
    return [
        Row(case, name, speed, "K rows/s", speed / medians[PLAIN], target.get(name), samples=figures[name])
        for name, speed in medians.items()
    ]


def delays(bootstrap: str, quick: bool) -> list[Row]:
    """Return the 99th percentile of the time that messages wait, of each contender at each load."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

    kinds: tuple[tuple[Which, str], ...] = (
        ("queueing", "p99 queueing delay"),
        ("end_to_end", "p99 delay by the clock"),
    )
    admin, rows = AdminClient({"bootstrap.servers": bootstrap}), list[Row]()
    seconds, interval = (8.0, 2.0) if quick else (24.0, 4.0)
    for microseconds in (50, 20):
        load = Load(microseconds * 1e-6, partitions=PARTITIONS, seconds=seconds, interval_seconds=interval)
        found = {}
        for contender in CONTENDERS:
            topic = f"{contender}-{microseconds}"
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
            found[contender] = measure(bootstrap, topic, contender, load)
        for which, words in kinds:
            for after, when in ((0.0, ""), (2 * interval, ", after two windows")):
                own = {name: 1e6 * each.quantile(which, 0.99, after) for name, each in found.items()}
                rows += [
                    Row(f"{words}{when}, {microseconds} us a message", name, value, "us", value / own["kafka"])
                    for name, value in own.items()
                ]
    return rows


def zipf_stream(spark: SparkSession, rows: int, tasks: int = 4) -> DataFrame:
    """Return a stream with so many rows a batch whose keys follow Zipf's law; a key comes from one partition."""
    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=tasks).load()
    return zipf_rows(source, tasks)


def zipf_rows(numbers: DataFrame, tasks: int = 4) -> DataFrame:
    """Return rows for numbers, whose keys follow Zipf's law.

    Each partition has keys of its own, with the same shares. The law is drawn by inverting its integral.
    """
    u = sql.pmod(sql.xxhash64("value"), sql.lit(1 << 30)).cast("double") / float(1 << 30)
    least = float((KEYS // tasks) ** (1 - EXPONENT))
    rank = sql.pow(1 - u * (1 - least), sql.lit(1 / (1 - EXPONENT))).cast("int")
    key = sql.concat(sql.lit("key"), rank.cast("string"), sql.lit("-"), sql.pmod("value", sql.lit(tasks)))
    return numbers.select(key.alias("key"), sql.repeat(sql.lit("v"), VALUE_BYTES).alias("value"))


def _batch_seconds(begin: Start, batches: int) -> list[float]:
    query = begin()
    while len(query.recentProgress) < batches and query.isActive:
        time.sleep(0.1)
    progress = [each for each in query.recentProgress if each.numInputRows][:batches]
    problem = query.exception()
    if problem is not None:
        raise problem
    query.stop()
    return [each.durationMs["triggerExecution"] / 1e3 for each in progress]


class Writers:
    """The queries that write, each to a topic of its own."""

    def __init__(self, spark: SparkSession, bootstrap: str, home: str) -> None:
        self._spark, self._home = spark, home
        self._options = {"kafka.bootstrap.servers": bootstrap, "kafka.acks": "all", "kafka.enable.idempotence": "true"}
        self._admin = Admin(spark, {"bootstrap.servers": bootstrap})

    def filled(self, rows: int, batches: int = 20) -> DataFrame:
        """Return a stream that reads so many rows a batch from a topic, which it fills."""
        self._admin.create("source", PARTITIONS)
        writer = zipf_rows(self._spark.range(rows * batches).withColumnRenamed("id", "value")).write.format("kafka")
        writer.options(**self._options, **LARGE_BATCHES, topic="source").save()
        reader = self._spark.readStream.format("kafka").options(**self._options, subscribe="source")
        return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=rows).load().select("key", "value")

    def starts(self, events: DataFrame, name: str) -> dict[str, Start]:
        header = sql.array(sql.struct(sql.lit("sm.seq").alias("key"), sql.lit(b"12345678").alias("value")))
        keyed: dict[str, Any] = {"keyed_source": True}
        return {
            PLAIN: self._plain(events, f"{name}-plain", {}),
            LARGE: self._plain(events, f"{name}-large", LARGE_BATCHES),
            HEADER: self._plain(events.withColumn("headers", header), f"{name}-header", LARGE_BATCHES),
            GATEWAY: self._gateway(events, f"{name}-gateway", keyed),
            f"{GATEWAY}, no row numbered": self._gateway(events, f"{name}-none", {**keyed, "stamp": "none"}),
            f"{GATEWAY}, all rows numbered": self._gateway(events, f"{name}-all", {**keyed, "stamp": "all"}),
            "gateway, any source": self._gateway(events, f"{name}-any", {}),
        }

    def _plain(self, events: DataFrame, topic: str, more: dict[str, str]) -> Start:
        self._admin.create(topic, PARTITIONS, KEPT)
        places = {"topic": topic, "checkpointLocation": f"{self._home}/{topic}"}
        return events.writeStream.format("kafka").options(**self._options, **more, **places).start

    def _gateway(self, events: DataFrame, topic: str, parameters: dict[str, Any]) -> Start:
        self._admin.create(topic, PARTITIONS, KEPT)
        writer = Gateway(events, key="key", topic=topic, options=self._options, **parameters)
        return partial(writer.start, f"{self._home}/{topic}")
