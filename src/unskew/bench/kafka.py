"""The gateway beside the same Spark job that leaves partitions to Kafka: rows per second into a local broker."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.bench.harness import Benchmark, Row

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

PARTITIONS = 8
KEYS = 100_000
EXPONENT = 1.1
VALUE_BYTES = 100
TARGET = 0.9
PLAIN, GATEWAY = "Kafka's partitioner", "gateway, keyed source"
HEADER = f"{PLAIN}, the same header on every row"


class KafkaBenchmark(Benchmark):
    """Write the same stream with Kafka's own partitioner and through the gateway; then measure how long messages wait.

    Both writers are streaming queries from the same source, with batches of the same size, one after the other. Keys
    follow Zipf's law at exponent 1.1; the gateway plans, keeps its log, writes markers and numbers the rows of keys
    that have moved. From a keyed source it needs no shuffle. The others show what less and more costs: no row numbered,
    all rows numbered, a shuffle by partition for sources that scatter a key, and Spark without a gateway that adds a
    constant header to every row. Broker and Spark share this machine's cores.

    The delays are those of `unskew.bench.kafka_delays`, at 50 and 20 microseconds a message.
    """

    name: ClassVar[str] = "kafka"
    summary: ClassVar[str] = "rows per second through the gateway, beside Kafka's own partitioner; delays behind it"

    def run(self, quick: bool) -> list[Row]:
        """Measure on batches of a million rows, or two hundred thousand."""
        from unskew.kafka.broker import start  # noqa: PLC0415

        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home, start(Path(home, "broker")) as broker:
            return [*speeds(broker.bootstrap, home, quick), *delays(broker.bootstrap, quick)]


def speeds(bootstrap: str, home: str, quick: bool) -> list[Row]:
    """Return rows per second of each writer."""
    from unskew.kafka.jars import connector_jars  # noqa: PLC0415
    from unskew.spark import session  # noqa: PLC0415

    rows, rounds, batches = (200_000, 1, 3) if quick else (1_000_000, 2, 2)
    spark = session(config={"spark.jars": ",".join(str(jar) for jar in connector_jars())})
    spark.sparkContext.setLogLevel("OFF")  # a query that is stopped in the middle of a batch complains at length
    events = zipf_stream(spark, rows)
    starts = _contenders(spark, events, bootstrap, home)
    seconds: dict[str, list[float]] = {name: [] for name in starts}
    for number in range(rounds + 1):
        for name, begin in starts.items():
            taken = _batch_seconds(begin, batches + 1)
            if number:  # the first round warms up, and so does the first batch of each
                seconds[name] += taken[1:]
    spark.sparkContext.setLogLevel("ERROR")
    figures = {name: [rows / each / 1e3 for each in taken] for name, taken in seconds.items()}
    medians = {name: statistics.median(taken) for name, taken in figures.items()}
    target = {GATEWAY: TARGET * medians[PLAIN]}
    case = f"write to {PARTITIONS} partitions, {rows:,} rows a batch"
    return [
        Row(case, name, speed, "K rows/s", speed / medians[PLAIN], target.get(name), samples=figures[name])
        for name, speed in medians.items()
    ]


def delays(bootstrap: str, quick: bool) -> list[Row]:
    """Return the 99th percentile of the time that messages wait, of each contender at each load."""
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]  # noqa: PLC0415

    from unskew.bench.kafka_delays import CONTENDERS, Load, Which, measure  # noqa: PLC0415

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
    """Return a stream with so many rows a batch whose keys follow Zipf's law; a key comes from one partition.

    Each partition has keys of its own, with the same shares. The law is drawn by inverting its integral.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415

    source = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=rows, numPartitions=tasks).load()
    u = sql.pmod(sql.xxhash64("value"), sql.lit(1 << 30)).cast("double") / float(1 << 30)
    least = float((KEYS // tasks) ** (1 - EXPONENT))
    rank = sql.pow(1 - u * (1 - least), sql.lit(1 / (1 - EXPONENT))).cast("int")
    key = sql.concat(sql.lit("key"), rank.cast("string"), sql.lit("-"), sql.pmod("value", sql.lit(tasks)))
    return source.select(key.alias("key"), sql.repeat(sql.lit("v"), VALUE_BYTES).alias("value"))


def _batch_seconds(begin: Callable[[], StreamingQuery], batches: int) -> list[float]:
    """Run a query for so many batches; return what each took."""
    query = begin()
    while len(query.recentProgress) < batches and query.isActive:
        query.awaitTermination(1)
    progress = [each for each in query.recentProgress if each.numInputRows][:batches]
    problem = query.exception()
    if problem is not None:
        raise problem
    query.stop()
    return [each.durationMs["triggerExecution"] / 1e3 for each in progress]


def _contenders(
    spark: SparkSession, events: DataFrame, bootstrap: str, home: str
) -> dict[str, Callable[[], StreamingQuery]]:
    from pyspark.sql import functions as sql  # noqa: PLC0415

    from unskew.kafka.spark_gateway import Gateway  # noqa: PLC0415
    from unskew.kafka.spark_kafka import Admin  # noqa: PLC0415

    options = {"kafka.bootstrap.servers": bootstrap, "kafka.acks": "all", "kafka.enable.idempotence": "true"}
    admin = Admin(spark, {"bootstrap.servers": bootstrap})
    variants: dict[str, dict[str, Any]] = {
        GATEWAY: {"keyed_source": True},
        f"{GATEWAY}, no row numbered": {"keyed_source": True, "stamp": "none"},
        f"{GATEWAY}, all rows numbered": {"keyed_source": True, "stamp": "all"},
        "gateway, any source": {},
    }
    header = sql.array(sql.struct(sql.lit("sm.seq").alias("key"), sql.lit(b"12345678").alias("value")))
    starts: dict[str, Callable[[], StreamingQuery]] = {}
    for at, (name, rows) in enumerate({PLAIN: events, HEADER: events.withColumn("headers", header)}.items()):
        admin.create(f"plain{at}", PARTITIONS)
        places = {"topic": f"plain{at}", "checkpointLocation": f"{home}/plain-{at}"}
        starts[name] = rows.writeStream.format("kafka").options(**options, **places).start
    for at, (name, parameters) in enumerate(variants.items()):
        writer = Gateway(events, key="key", topic=f"topic{at}", options=options, partitions=PARTITIONS, **parameters)
        starts[name] = partial(writer.start, f"{home}/checkpoint-{at}")
    return starts
