"""Two small queries that break first where something is wrong: Python workers, and RocksDB's native library."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from unskew.errors import SessionError


def is_running() -> bool:
    """Whether this process has a Spark session."""
    return SparkContext._active_spark_context is not None


def ask_a_worker(spark: SparkSession) -> str:
    """Return the interpreter of a Python worker; `SessionError` if its version is not the driver's."""
    row = spark.range(1).coalesce(1).mapInArrow(_interpreter, "python string, version string").collect()[0]
    ours = sys.version.split()[0]
    if row.version != ours:
        raise SessionError(f"the workers run Python {row.version}, the driver {ours}", hint="set PYSPARK_PYTHON")
    return f"{row.python} {row.version}"


def _interpreter(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable], "version": [sys.version.split()[0]]})


def count_with_state(spark: SparkSession) -> dict[str, int]:
    """Count three rows per key in a streaming query with state, and return the counts."""
    with tempfile.TemporaryDirectory(prefix="unskew-trial-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        (source / "rows.json").write_text("\n".join(json.dumps({"key": key}) for key in "aba"))
        counts: dict[str, int] = {}
        query = (
            spark.readStream.schema("key string")
            .json(str(source))
            .groupBy("key")
            .count()
            .writeStream.outputMode("complete")
            .option("checkpointLocation", str(Path(folder) / "checkpoint"))
            .foreachBatch(lambda batch, _: counts.update({row["key"]: row["count"] for row in batch.collect()}))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    return dict(sorted(counts.items()))
