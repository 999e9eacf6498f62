"""TPC-H's query 5 as a continuous query: four stages, balanced and by hash alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import mean
from typing import Any

from pyspark.sql import SparkSession

from unskew.jobs.tpch_q5 import STAGES, TpchQ5, read_stream, write
from unskew.spark.query import BalancedQuery
from unskew.workloads.tpch import Tpch
from unskew_lab.bench.harness import Row
from unskew_lab.bench.streams import temporary_folder, temporary_session

CHANNELS = 8
SLICES = 8
SKIPPED = 2
BALANCED, HASHED = "unskew", "by hash alone"


def query_5(scale: float) -> list[Row]:
    """Run all stages over all rows: foreign keys by Zipf 0.8, a change by f = 1 every quarter of an hour.

    How long the batches of all stages take, each stage's first left out, which starts everything up; and by how much
    the fullest channel exceeds the mean, after some batches.
    """
    results, seconds = list[Row](), dict[str, float]()
    with temporary_session("local[2,4]") as spark, temporary_folder() as home:
        write(Tpch(scale=scale, channels=CHANNELS), f"{home}/data", SLICES)
        for who, options in ((BALANCED, {}), (HASHED, {"min_gain": math.inf})):
            queries = _run(spark, f"{home}/data", f"{home}/{who}", options)
            seconds[who] = sum(map(_seconds, queries.values()))
            results += [_overload(f"TPC-H query 5, scale {scale:g}, stage", who, queries, name) for name in STAGES]
    name = f"TPC-H query 5, scale {scale:g}, batches of all stages"
    ratio = seconds[HASHED] / seconds[BALANCED]
    return [
        *(Row(name, who, taken, "s", better="lower") for who, taken in seconds.items()),
        Row(f"{name}: times faster", BALANCED, ratio, "x", ratio=ratio),
        *results,
    ]


def _run(spark: SparkSession, data: str, folder: str, options: Mapping[str, Any]) -> dict[str, BalancedQuery]:
    return TpchQ5(spark, read_stream(spark, data), folder, options={"channels": CHANNELS, **options}).run()


def _seconds(query: BalancedQuery) -> float:
    return sum(batch.durationMs["triggerExecution"] / 1e3 for batch in query.recentProgress[1:])


def _overload(prefix: str, who: str, queries: dict[str, BalancedQuery], name: str) -> Row:
    overloads = [batch.imbalance - 1 for batch in queries[name].figures if batch.rows][SKIPPED:]
    value = 100 * mean(overloads) if overloads else 0.0
    return Row(f"{prefix} {name}: fullest channel over the mean", who, value, "%", better="lower")
