"""A per-group pandas function on static rows with Zipf keys: Spark with adaptive execution, and unskew, by turns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import unskew
from unskew.workloads import workload
from unskew_lab.bench.harness import Benchmark, Row, interleave
from unskew_lab.bench.streams import discard, settings, temporary_folder, temporary_session
from unskew_lab.bench.work import Kind, spend

CHANNELS = 8
EXPONENT = 1.2
FILES = 8
PAYLOAD_BYTES = 500  # random: adaptive execution goes by bytes, and joins small partitions until one task is left

READING = {"spark.sql.files.maxPartitionBytes": str(1 << 20)}

Function = Callable[..., pd.DataFrame]


class BatchBenchmark(Benchmark):
    """Call a pandas function per group, with a cost per row: waited for on eight task slots, computed on two cores.

    Everything is timed, unskew's pass over the keys too.
    """

    name: ClassVar[str] = "batch"
    summary: ClassVar[str] = "a pandas function per group of static rows with Zipf 1.2 keys, beside Spark with AQE"

    def run(self, quick: bool) -> list[Row]:
        rows, keys, repeats = (8_000, 1_000, 2) if quick else (40_000, 10_000, 5)
        wait, compute = 1e-3, 250e-6
        with temporary_folder() as home:
            write_rows(home, rows, keys)
            fullest = _fullest_tasks(str(home))
            waited = _measure(str(home), f"local[{CHANNELS},4]", _counting(wait, "wait"), repeats)
            computed = _measure(str(home), "local[2,4]", _counting(compute, "cpu"), repeats)
        return [
            *(
                Row("rows of the fullest task over an eighth of all", who, n, "x", better="lower")
                for who, n in fullest.items()
            ),
            *_rows(f"{wait * 1e6:.0f} us waited per row, local[{CHANNELS}]", waited),
            *_rows(f"{compute * 1e6:.0f} us computed per row, local[2]", computed),
        ]


def write_rows(folder: Path, rows: int, keys: int) -> None:
    """Write Zipf keys and a payload of random bytes as Parquet files."""
    random = np.random.default_rng(0)
    stream = workload("zipf", exponent=EXPONENT, keys=keys)
    for number in range(FILES):
        size = rows // FILES
        payload = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(PAYLOAD_BYTES), size, [None, pa.py_buffer(random.bytes(size * PAYLOAD_BYTES))]
        ).cast(pa.binary())
        table = pa.table({"key": stream.keys(number, size), "payload": payload})
        pq.write_table(table, folder / f"{number}.parquet", compression="none")


def _counting(seconds: float, kind: Kind) -> Function:
    def count(frame: Any) -> pd.DataFrame:
        spend(seconds * len(frame), kind)
        return pd.DataFrame({"key": frame["key"].head(1), "n": [len(frame)]})

    return count


def _fullest_tasks(folder: str) -> dict[str, float]:
    """Return how many rows the fullest task has, over what each of eight would have."""

    def where(frame: Any) -> pd.DataFrame:
        return pd.DataFrame({"task": [TaskContext.get().partitionId()], "n": [len(frame)]})  # type: ignore[union-attr]

    def fullest(frame: DataFrame) -> float:
        tasks = frame.toPandas().groupby("task")["n"].sum()
        return float(tasks.max() / (tasks.sum() / CHANNELS))

    with temporary_session(f"local[{CHANNELS},4]", READING) as spark:
        rows = spark.read.parquet(folder)
        found = {}
        for partitions in (CHANNELS, 200):
            with settings(spark, _adaptive(partitions)):
                found[f"Spark, {partitions} partitions"] = fullest(
                    rows.groupBy("key").applyInPandas(where, "task int, n long")
                )
        balanced = unskew.balance(rows, "key", channels=CHANNELS)
        return {**found, "unskew": fullest(cast(DataFrame, balanced.applyInPandas(where, "task int, n long")))}


def _measure(folder: str, master: str, function: Function, repeats: int) -> dict[str, float]:
    with temporary_session(master, READING) as spark:
        rows = spark.read.parquet(folder)
        contenders: dict[str, Callable[[], object]] = {
            f"Spark, {partitions} partitions": lambda p=partitions: _native(spark, rows, function, p)  # type: ignore[misc]
            for partitions in (CHANNELS, 200)
        }
        contenders["unskew"] = lambda: _balanced(rows, function)
        return {name: t.median_seconds for name, t in interleave(contenders, repeats=repeats).items()}


def _native(spark: SparkSession, rows: DataFrame, function: Function, partitions: int) -> None:
    with settings(spark, _adaptive(partitions)):
        discard(rows.groupBy("key").applyInPandas(function, "key long, n long"), 0)


def _balanced(rows: DataFrame, function: Function) -> None:
    balanced = unskew.balance(rows, "key", channels=CHANNELS)
    discard(cast(DataFrame, balanced.applyInPandas(function, "key long, n long")), 0)


def _adaptive(partitions: int) -> dict[str, str]:
    return {"spark.sql.shuffle.partitions": str(partitions), "spark.sql.adaptive.enabled": "true"}


def _rows(name: str, seconds: dict[str, float]) -> list[Row]:
    ours = seconds["unskew"]
    rows = [Row(name, who, value, "s", ratio=value / ours, better="lower") for who, value in seconds.items()]
    speed = seconds[f"Spark, {CHANNELS} partitions"] / ours
    return [*rows, Row(f"{name}: speed over Spark, {CHANNELS} partitions", "unskew", speed, "x", target=1.0)]
