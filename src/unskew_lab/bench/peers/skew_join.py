"""The batch twin: skewed rows joined with a table, by Spark with and without adaptive skew joins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from unskew_lab.bench.streams import settings

PARTITIONS = 8
VERSIONS = 20  # rows of the table for each key, so that a hot key is work and not only reading
SMALL_PARTITION = str(256 << 10)  # Spark takes partitions for skewed from 256 MB on, which these are not


def write_table(folder: Path, keys: int) -> None:
    """Write the table: some versions of each key."""
    names = np.repeat(np.array([f"k{i}" for i in range(keys)]), VERSIONS)
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(
        pa.table({"key": names, "weight": np.tile(np.arange(VERSIONS, dtype=np.float64), keys)}), folder / "0"
    )


def joins(spark: SparkSession, rows: Path, table: Path) -> dict[str, Callable[[], object]]:
    """Return ways to join; each gives the sum of the products."""

    def join(adaptive: bool) -> float:
        ways = {
            "spark.sql.adaptive.enabled": str(adaptive).lower(),
            "spark.sql.adaptive.skewJoin.enabled": str(adaptive).lower(),
            "spark.sql.adaptive.skewJoin.skewedPartitionThresholdInBytes": SMALL_PARTITION,
            "spark.sql.adaptive.skewJoin.skewedPartitionFactor": "1.5",
            "spark.sql.adaptive.advisoryPartitionSizeInBytes": SMALL_PARTITION,
            "spark.sql.autoBroadcastJoinThreshold": "-1",
            "spark.sql.shuffle.partitions": str(PARTITIONS),
        }
        with settings(spark, ways):
            joined = spark.read.parquet(str(rows)).join(spark.read.parquet(str(table)), "key")
            [found] = joined.agg(sql.sum(sql.col("value") * sql.col("weight"))).collect()
            return float(found[0])

    return {"Spark, plain join": lambda: join(False), "Spark, adaptive skew join": lambda: join(True)}
