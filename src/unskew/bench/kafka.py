"""The gateway beside the same Spark job that leaves partitions to Kafka: rows per second into a local broker."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from unskew.bench.harness import Benchmark, Row, interleave

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from unskew.kafka.spark_gateway import Gateway

PARTITIONS = 8
KEYS = 100_000
VALUE_BYTES = 100
TARGET = 0.9
PLAIN = "Kafka's partitioner"


class KafkaBenchmark(Benchmark):
    """Write the same rows, cached in memory, with Kafka's own partitioner and through the gateway.

    Keys follow Zipf's law at exponent 1.1; the gateway plans, keeps its log, writes markers and numbers its rows. From
    a keyed source it needs no shuffle. The others show what more costs: numbers on all rows, and a shuffle by
    partition for sources that scatter a key. Broker and Spark share this machine's cores.
    """

    name: ClassVar[str] = "kafka"
    summary: ClassVar[str] = "rows per second through the gateway, beside Kafka's own partitioner"

    def run(self, quick: bool) -> list[Row]:
        """Measure on a million rows a batch, or two hundred thousand."""
        from unskew.kafka.broker import start  # noqa: PLC0415
        from unskew.kafka.jars import connector_jars  # noqa: PLC0415
        from unskew.spark import session  # noqa: PLC0415

        rows, repeats = (200_000, 3) if quick else (1_000_000, 7)
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home, start(Path(home, "broker")) as broker:
            spark = session(config={"spark.jars": ",".join(str(jar) for jar in connector_jars())})
            events = zipf_rows(spark, rows).persist()
            events.count()
            calls = _contenders(spark, events, broker.bootstrap, home)
            times = interleave(calls, repeats=repeats, warmup=2 if quick else 3)
            events.unpersist()
        speeds = {name: rows / timing.median_seconds / 1e3 for name, timing in times.items()}
        plain = speeds[PLAIN]
        gateway_target = {"gateway, keyed source": TARGET * plain}
        return [
            Row("write to 8 partitions", name, speed, "K rows/s", speed / plain, gateway_target.get(name))
            for name, speed in speeds.items()
        ]


def zipf_rows(spark: SparkSession, rows: int, tasks: int = 4) -> DataFrame:
    """Return rows whose keys follow Zipf's law; all rows of a key lie in one partition."""
    import numpy as np  # noqa: PLC0415
    import pyarrow as pa  # noqa: PLC0415
    from pyspark.sql import functions as sql  # noqa: PLC0415

    weight = np.arange(1, KEYS + 1, dtype=np.float64) ** -1.1
    drawn = np.searchsorted(np.cumsum(weight / weight.sum()), np.random.default_rng(0).random(rows))
    ranks = spark.createDataFrame(pa.table({"rank": drawn.astype(np.int64)}))
    placed = ranks.repartitionById(tasks, sql.pmod(sql.xxhash64("rank"), sql.lit(tasks)).cast("int"))
    key = sql.concat(sql.lit("key"), sql.col("rank").cast("string"))
    return placed.select(key.alias("key"), sql.repeat(sql.lit("v"), VALUE_BYTES).alias("value"))


def _contenders(spark: SparkSession, events: DataFrame, bootstrap: str, home: str) -> dict[str, Callable[[], object]]:
    from unskew.kafka.spark_kafka import Admin  # noqa: PLC0415

    options = {"kafka.bootstrap.servers": bootstrap, "kafka.acks": "all", "kafka.enable.idempotence": "true"}
    admin = Admin(spark, {"bootstrap.servers": bootstrap})
    admin.create("plain", PARTITIONS)
    variants: dict[str, dict[str, Any]] = {
        "gateway, keyed source": {"keyed_source": True},
        "gateway, keyed source, all rows numbered": {"keyed_source": True, "stamp": "all"},
        "gateway, any source": {},
        "gateway, any source, all rows numbered": {"stamp": "all"},
    }
    writer = events.write.format("kafka").options(**options).option("topic", "plain")
    calls: dict[str, Callable[[], object]] = {PLAIN: writer.save}
    for at, (name, parameters) in enumerate(variants.items()):
        calls[name] = _gateway_call(spark, events, options, f"{home}/checkpoint-{at}", f"topic{at}", parameters)
    return calls


def _gateway_call(
    spark: SparkSession,
    events: DataFrame,
    options: dict[str, str],
    checkpoint: str,
    topic: str,
    parameters: dict[str, Any],
) -> Callable[[], object]:
    from unskew.kafka.spark_gateway import Gateway  # noqa: PLC0415

    gateway: Gateway = Gateway(
        events, key="key", topic=topic, options=options, partitions=PARTITIONS, interval_seconds=5.0, **parameters
    )
    gateway.open(spark, checkpoint)
    return lambda: gateway.write(events, gateway.batches)
