"""A small job that breaks first where something is wrong with Python workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import SparkSession

from unskew.errors import SessionError


def is_running() -> bool:
    """Tell whether this process has a Spark session."""
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
