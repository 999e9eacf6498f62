"""Keyed state on Spark: unskew beside Spark's own ways, on the same batches."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.bench.harness import Benchmark, Row
from unskew.bench.streams import NATIVE_STATE, batch_seconds, discard, write_file, write_files
from unskew.spark import session

CHANNELS = 4
OURS = "unskew"
DROP_IN, LEAN = "drop-in", "lean"
PER_KEY_TARGETS = {OURS: 25.0, DROP_IN: 3.5, LEAN: 10.0}
OUTPUT, STATE = "key string, n long, total double", "n long, total double"


class StateBenchmark(Benchmark):
    """A running count and sum per key, as Spark users write it, and as unskew does it.

    Every contender reads the same files, one per batch, on two cores and four state partitions, and its output is
    taken in whole. A value is the median time of a batch; a ratio, how many times faster than the peer.
    """

    name: ClassVar[str] = "state"
    summary: ClassVar[str] = "running aggregates and per-key functions, beside Spark's own state"

    def run(self, quick: bool) -> list[Row]:
        """Measure; quickly, on a tenth of the rows, which no target is meant for, and without the largest sizes."""
        spark = session(master="local[2,4]", config={**NATIVE_STATE, "spark.sql.shuffle.partitions": str(CHANNELS)})
        try:
            with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
                if quick:
                    self.note("Targets are judged by the whole run: small batches are mostly Spark's fixed cost.")
                    results = aggregates(spark, Path(home) / "many", 50_000, rounds=1)
                    return results + per_key_functions(spark, Path(home) / "per-key", 50_000)
                return [
                    *aggregates(spark, Path(home) / "many", 500_000, rounds=3, target=1.0),
                    *per_key_functions(spark, Path(home) / "per-key", 500_000, targets=PER_KEY_TARGETS),
                    *aggregates(spark, Path(home) / "large", 4_000_000, rounds=2, target=0.8),
                    *touched_and_held(spark, Path(home) / "held"),
                ]
        finally:
            spark.stop()


def aggregates(spark: SparkSession, folder: Path, rows: int, rounds: int, target: float | None = None) -> list[Row]:
    """Compare with Spark's native aggregation."""
    write_files(folder, batches=9, rows=rows, keys=100_000)
    times = batch_seconds(spark, folder, {OURS: balanced_sums, "native": native_sums}, rounds=rounds, skipped=4)
    return _compared(f"count and sum, {rows:,} rows a batch", times, "native", target)


def per_key_functions(
    spark: SparkSession, folder: Path, rows: int, targets: Mapping[str, float] = MappingProxyType({})
) -> list[Row]:
    """Compare with Spark's applyInPandasWithState, the same function in both."""
    write_files(folder, batches=4, rows=rows, keys=100_000)
    contenders = {
        OURS: balanced_sums,
        DROP_IN: balanced_function,
        LEAN: balanced_lean_function,
        "applyInPandasWithState": native_function,
    }
    times = batch_seconds(spark, folder, contenders, rounds=1, skipped=1)
    peer = median(times["applyInPandasWithState"])
    name = f"per-key count and sum, {rows:,} rows a batch"
    return [
        *(
            Row(
                f"{name}: times faster",
                who,
                peer / median(times[who]),
                "x",
                ratio=peer / median(times[who]),
                target=targets.get(who),
            )
            for who in (OURS, DROP_IN, LEAN)
        ),
        *(Row(name, who, median(seconds), "s", better="lower", samples=seconds) for who, seconds in times.items()),
    ]


def touched_and_held(spark: SparkSession, folder: Path, touched: int = 10_000, held: int = 2_000_000) -> list[Row]:
    """Compare batches that touch as many keys of a large state and of a small one."""
    rng = np.random.default_rng(0)
    names = pa.array([f"k{i}" for i in range(held)])
    for size in (held, touched):
        for batch, first in enumerate(range(0, size, held // 4)):
            part = names.slice(first, min(held // 4, size - first))
            write_file(folder / str(size), batch, part, np.ones(len(part)))
        for batch in range(4, 14):
            drawn = rng.choice(size, touched, replace=False)
            write_file(folder / str(size), batch, names.take(pa.array(drawn)), np.ones(touched))
    seconds = {
        size: batch_seconds(spark, folder / str(size), {OURS: balanced_sums}, rounds=1, skipped=-8)[OURS]
        for size in (held, touched)
    }
    ratio = median(seconds[held]) / median(seconds[touched])
    name = f"{touched:,} keys touched, {held:,} held over {touched:,} held"
    return [
        Row(name, OURS, ratio, "x", target=1.5, better="lower"),
        *(
            Row(f"{touched:,} keys touched, {size:,} held", OURS, median(s), "s", better="lower", samples=s)
            for size, s in seconds.items()
        ),
    ]


def native_sums(events: DataFrame, checkpoint: str) -> Any:
    """Spark's own aggregation in update mode."""
    sums = events.groupBy("key").agg(sql.count("*").alias("n"), sql.sum("value").alias("total"))
    return _started(sums, checkpoint)


def balanced_sums(events: DataFrame, checkpoint: str) -> Any:
    """The same with unskew's vectorised operator."""
    return _started(_balanced(events).aggregate(n="count", total="sum(value)"), checkpoint)


def native_function(events: DataFrame, checkpoint: str) -> Any:
    """The same with a function per key, called by Spark."""
    grouped = events.groupBy("key")
    return _started(grouped.applyInPandasWithState(count_and_sum, OUTPUT, STATE, "update", "NoTimeout"), checkpoint)


def balanced_function(events: DataFrame, checkpoint: str) -> Any:
    """The same function, called by unskew."""
    grouped = _balanced(events)
    return _started(grouped.applyInPandasWithState(count_and_sum, OUTPUT, STATE, "update", "NoTimeout"), checkpoint)


def balanced_lean_function(events: DataFrame, checkpoint: str) -> Any:
    """The same logic as a function of arrays."""
    return _started(_balanced(events).apply_per_key(lean_count_and_sum, OUTPUT, STATE), checkpoint)


def count_and_sum(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count and sum in pandas, returning one small frame per key."""
    n, total = state.get if state.exists else (0, 0.0)
    for frame in frames:
        n += len(frame)
        total += float(frame["value"].sum())
    state.update((n, total))
    yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})


def lean_count_and_sum(key: tuple[str], rows: Any, state: tuple[Any, ...] | None) -> Any:
    """Count and sum in NumPy, returning one row per key."""
    n, total = state or (0, 0.0)
    values = rows["value"]
    n, total = n + len(values), total + float(values.sum())
    return (n, total), (key[0], n, total)


def _balanced(events: DataFrame) -> Any:
    return unskew.balance(events, "key", channels=CHANNELS)


def _started(rows: Any, checkpoint: str) -> Any:
    writer = rows.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    return writer.foreachBatch(discard).trigger(availableNow=True).start()


def _compared(name: str, times: dict[str, list[float]], peer: str, target: float | None) -> list[Row]:
    ratio = median(times[peer]) / median(times[OURS])
    return [
        Row(f"{name}: times faster than {peer}", OURS, ratio, "x", ratio=ratio, target=target),
        *(Row(name, who, median(seconds), "s", better="lower", samples=seconds) for who, seconds in times.items()),
    ]
