"""Grouped functions on streams, batch by batch beside Spark's own on the same files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

import unskew
from unskew.errors import ArgumentError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

SEEN = "key string, rows string, n long"
SCHEMA = "user string, n int, ts timestamp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    """Write three batches, the second without rows; u0 has most of them."""
    tables = []
    for batch, size in enumerate((60, 0, 60)):
        users = ["u0" if i % 5 < 3 else None if i % 7 == 0 else f"u{i % 11}" for i in range(size)]
        times = [(1_700_000_000 + 20 * i + batch) * 1_000_000 for i in range(size)]
        numbers = [None if i % 13 == 0 else i % 4 for i in range(size)]
        columns = {
            "user": pa.array(users, pa.string()),
            "n": pa.array(numbers, pa.int32()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
        }
        tables.append(pa.table(columns))
    return Path(write_batches(tmp_path_factory.mktemp("data"), tables))


def stream(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def shown(key: Any, *sides: list[Any]) -> dict[str, list[Any]]:
    rows = [sorted(map(str, side)) for side in sides]
    return {"key": [str(key)], "rows": [str(rows)], "n": [sum(map(len, sides))]}


def frames(key: Any, *sides: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(shown(key, *([*side.columns, *side.dtypes, *side.values.tolist()] for side in sides)))


def frame(key: Any, rows: pd.DataFrame) -> pd.DataFrame:
    return frames(key, rows)


def pair(key: Any, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return frames(key, left, right)


def table(key: Any, rows: pa.Table) -> pa.Table:
    return pa.table(shown(key, [*rows.schema, *rows.to_pylist()]))


def tables(key: Any, left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table(shown(key, [*left.schema, *left.to_pylist()], [*right.schema, *right.to_pylist()]))


def run(rows: Any, checkpoint: Path, mode: str = "append") -> dict[int, list[str]]:
    batches: dict[int, list[str]] = {}

    def sink(rows: Any, batch_id: int) -> None:
        batches[batch_id] = [str(rows.schema), *sorted(map(repr, rows.collect()))]

    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).foreachBatch(sink).start().awaitTermination()
    return batches


JOBS: dict[str, Callable[[Any, Any], Any]] = {
    "frames by an expression": lambda group, rows: group(rows, F.upper("USER")).applyInPandas(frame, SEEN),
    "tables by windows": lambda group, rows: group(rows, F.window("ts", "2 minutes", "1 minute"), "N").applyInArrow(
        table, SEEN
    ),
    "one group": lambda group, rows: group(rows).applyInArrow(table, SEEN),
    "two streams": lambda group, rows: (
        group(rows, "user").cogroup(group(rows.where("n > 0").select("n", "user"), "user")).applyInPandas(pair, SEEN)
    ),
}


def natively(rows: Any, *key: Any) -> Any:
    return rows.groupBy(*key)


def balanced(rows: Any, *key: Any) -> Any:
    return unskew.balance(rows, *key, channels=3)


@pytest.mark.parametrize(
    "name", [each if each == "frames by an expression" else pytest.param(each, marks=pytest.mark.slow) for each in JOBS]
)
def test_every_batch_is_sparks(spark: Any, folder: Path, tmp_path: Path, name: str) -> None:
    expected = run(JOBS[name](natively, stream(spark, folder)), tmp_path / "native")
    assert run(JOBS[name](balanced, stream(spark, folder)), tmp_path / "ours") == expected
    assert sorted(expected) == [0, 1, 2]
    assert len(expected[0]) > 1


def test_a_file_sink_and_a_restart(spark: Any, folder: Path, tmp_path: Path) -> None:
    stage = unskew.balance(stream(spark, folder), "user", channels=2).applyInPandas(frame, SEEN)
    for _ in range(2):
        writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).queryName("grouped")
        query = writer.trigger(availableNow=True).format("parquet").start(str(tmp_path / "out"))
        query.awaitTermination()
        assert query.name == "grouped"
    static = spark.read.schema(SCHEMA).parquet(str(folder))
    expected = static.groupBy("user").count().select("user", "count")
    counts = spark.read.parquet(str(tmp_path / "out")).groupBy("key").agg((F.sum("n") - 2 * 6).alias("n"))
    assert sorted(row["n"] for row in counts.collect()) == sorted(row["count"] for row in expected.collect())


def test_a_stream_with_static_rows_is_refused(spark: Any, folder: Path) -> None:
    one, other = (unskew.balance(rows, "user") for rows in (stream(spark, folder), spark.read.parquet(str(folder))))
    for left, right in ((one, other), (other, one)):
        with pytest.raises(ArgumentError, match="two streams or two static DataFrames"):
            left.cogroup(right).applyInPandas(pair, SEEN)


def test_complete_mode_is_refused_as_by_spark(spark: Any, folder: Path, tmp_path: Path) -> None:
    def told(rows: Any, where: str) -> str:
        with pytest.raises(AnalysisException) as error:
            run(rows, tmp_path / where, "complete")
        return str(error.value).split("\n")[0]

    rows = stream(spark, folder)
    native = told(rows.groupBy("user").applyInPandas(frame, SEEN), "native")
    assert told(unskew.balance(rows, "user").applyInPandas(frame, SEEN), "ours") == native
