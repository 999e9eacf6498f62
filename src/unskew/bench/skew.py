"""The headline: saturated streams with skewed keys, under every way to partition them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.bench.delayed_count import DelayedCount
from unskew.bench.harness import Benchmark, Row
from unskew.bench.streams import discard, read_files, write_file
from unskew.spark import session

CHANNELS = 10
KEYS = 100_000
SALTS = 10
IDEAL, HASH = "round robin", "Spark's hash"


@dataclass(frozen=True)
class Stream:
    """A stream of Zipf keys whose popularity is dealt out anew every `shift` batches."""

    exponent: float
    batches: int
    shift: int
    rows: int
    seconds_per_tuple: float

    def write(self, folder: Path, seed: int = 0) -> None:
        """Write one file per batch."""
        rng = np.random.default_rng(seed)
        weight = np.arange(1, KEYS + 1, dtype=np.float64) ** -self.exponent
        cdf = np.cumsum(weight / weight.sum())
        names = np.array([f"k{i}" for i in range(KEYS)])
        for batch in range(self.batches):
            if batch % self.shift == 0:
                names = rng.permutation(names)
            drawn = np.searchsorted(cdf, rng.random(self.rows)).clip(0, KEYS - 1)
            write_file(folder, batch, pa.array(names[drawn]), np.arange(self.rows, dtype=np.float64))


@dataclass(frozen=True)
class Contender:
    """A way to partition: options of `unskew.balance`, or salting by hand."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    salted: bool = False

    def start(self, events: DataFrame, checkpoint: str, seconds_per_tuple: float) -> Any:
        """Start counting."""
        scheme = self.options.get("split", "auto") != "auto"
        count = DelayedCount(seconds_per_tuple, "worker" if scheme else "owner")
        key, sink = ["key"], discard
        if self.salted:
            events = events.withColumn("salt", sql.pmod(sql.col("value").cast("long"), sql.lit(SALTS)))
            key, sink = ["key", "salt"], _second_phase
        balanced = unskew.balance(events, key, channels=CHANNELS, **self.options)
        writer = balanced.apply(count).writeStream.option("checkpointLocation", checkpoint)
        return writer.foreachBatch(sink).trigger(availableNow=True).start()


CONTENDERS = [
    Contender(IDEAL, {"split": "shuffle"}),
    Contender(HASH, {"planner": "keep"}),
    Contender("salting by hand", {"planner": "keep"}, salted=True),
    Contender("partial key grouping", {"split": "pkg"}),
    Contender("D-Choices", {"split": "d-choices"}),
    Contender("scan", {"planner": "scan"}),
    Contender("redist", {"planner": "redist"}),
    Contender("readj", {"planner": "readj"}),
    Contender("MinTable", {"planner": "mintable"}),
    *(Contender(f"Mixed {tolerance}", {"planner": "mixed", "tolerance": tolerance}) for tolerance in (0.02, 0.08, 0.3)),
    Contender("Mixed 0.1", {"planner": "mixed", "tolerance": 0.1}),
    Contender("Mixed 0.15", {"planner": "mixed", "tolerance": 0.15}),
    Contender("Mixed 0.08 and split keys", {"planner": "mixed", "tolerance": 0.08, "split": "auto"}),
    Contender("flux-load", {"planner": "flux-load"}),
    Contender("smalops", {"planner": "smalops"}),
]
QUICK = (IDEAL, HASH, "Mixed 0.08", "Mixed 0.08 and split keys")


@dataclass(frozen=True)
class Measured:
    """What one contender did with one stream, batch by batch."""

    seconds: list[float]
    imbalance: list[float]
    moved_bytes: int
    state_bytes: int
    table_keys: int
    planning_seconds: list[float]


class SkewBenchmark(Benchmark):
    """Ten saturated channels count keys whose popularity follows Zipf's law and changes; every tuple takes its time.

    Throughput is that of round robin, which is as even as can be, divided into each contender's: the time of all
    batches after the first few. A channel waits for its tuples and holds no core while it does.
    """

    name: ClassVar[str] = "skew"
    summary: ClassVar[str] = "saturated streams with skewed keys, under every way to partition them"

    def run(self, quick: bool) -> list[Row]:
        """Measure; quickly, one skew and four contenders."""
        exponents = (1.0,) if quick else (0.6, 1.0, 1.4, 2.0)
        batches, shift, work = (14, 7, 1.0) if quick else (48, 16, 2.0)
        chosen = [each for each in CONTENDERS if not quick or each.name in QUICK]
        spark = session(master=f"local[{CHANNELS}]")
        try:
            rows: list[Row] = []
            for exponent in exponents:
                stream = Stream(exponent, batches, shift, rows=20_000, seconds_per_tuple=work * CHANNELS / 20_000)
                rows += list(_rows(stream, measure(spark, stream, chosen)))
            return rows
        finally:
            spark.stop()


def measure(spark: SparkSession, stream: Stream, contenders: list[Contender]) -> dict[str, Measured]:
    """Run every contender over the same files."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
        stream.write(Path(home) / "data")
        for contender in contenders:
            with tempfile.TemporaryDirectory(prefix="unskew-bench-") as checkpoint:
                query = contender.start(read_files(spark, Path(home) / "data"), checkpoint, stream.seconds_per_tuple)
                query.awaitTermination()
                results[contender.name] = _measured(query)
    return results


def _measured(query: Any, warm_up: int = 2) -> Measured:
    progress = [each for each in query.recentProgress if each.numInputRows][warm_up:]
    figures = query.figures[warm_up:]
    return Measured(
        seconds=[each.durationMs["triggerExecution"] / 1e3 for each in progress],
        imbalance=[each.imbalance for each in figures],
        moved_bytes=sum(each.moved_bytes for each in figures),
        state_bytes=figures[-1].state_bytes,
        table_keys=max(each.table_keys for each in figures),
        planning_seconds=[each.planning_seconds for each in figures if each.planner],
    )


def _rows(stream: Stream, results: dict[str, Measured]) -> Iterator[Row]:
    ideal, spark_hash = (float(np.sum(results[name].seconds)) for name in (IDEAL, HASH))
    for name, result in results.items():
        where, total = f"Zipf {stream.exponent}", float(np.sum(result.seconds))
        p50, p95, p99 = np.quantile(result.seconds, [0.5, 0.95, 0.99])
        yield Row(f"{where}: throughput over {IDEAL}", name, ideal / total, "x", ratio=spark_hash / total)
        yield Row(f"{where}: batch, median", name, float(p50), "s", better="lower")
        yield Row(f"{where}: batch, 95 %", name, float(p95), "s", better="lower")
        yield Row(f"{where}: batch, 99 %", name, float(p99), "s", better="lower")
        yield Row(f"{where}: overload, median", name, float(np.median(result.imbalance)), "", better="lower")
        yield Row(f"{where}: state moved a batch", name, _share(result, len(result.seconds)), "%", better="lower")
        yield Row(f"{where}: keys in the table", name, float(result.table_keys), "", better="lower")
        if result.planning_seconds:
            yield Row(f"{where}: plan", name, 1e3 * float(np.median(result.planning_seconds)), "ms", better="lower")


def _share(result: Measured, batches: int) -> float:
    return 100 * result.moved_bytes / max(result.state_bytes, 1) / batches


def _second_phase(rows: DataFrame, batch_id: int) -> None:
    """Add up the salts of each key, as people do who salt by hand."""
    discard(rows.groupBy("key").agg(sql.sum("n").alias("n")), batch_id)
