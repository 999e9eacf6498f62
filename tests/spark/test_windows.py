"""Windowed aggregates as whole queries, batch by batch beside Spark's own on the same files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.errors import ArgumentError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

SCHEMA = "user string, amount int, ts timestamp"
SECOND = 1_000_000


def drawn(batches: int, rows: int = 400) -> list[pa.Table]:
    """Zipf keys that drift, times out of order and far too late, nulls in keys, values and times."""
    random, tables = np.random.default_rng(4), []
    for batch in range(batches):
        user = [f"u{(int(n) + 4 * batch) % 40}" for n in random.zipf(1.3, rows)]
        second = 10_000 + 30 * batch + random.integers(-60, 30, rows) - np.where(random.random(rows) < 0.05, 300, 0)
        columns = {
            "user": pa.array([None if name == "u3" else name for name in user]),
            "amount": pa.array(random.integers(-50, 50, rows), pa.int32(), mask=random.random(rows) < 0.1),
            "ts": pa.array(second * SECOND, pa.timestamp("us", "UTC"), mask=random.random(rows) < 0.02),
        }
        tables.append(pa.table(columns))
    return tables


class Collect:
    """A sink that remembers what each batch wrote; batches without rows are left out."""

    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def __call__(self, rows: Any, batch_id: int) -> None:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        for row in found:
            row["spread"] = None if row["spread"] is None else round(row["spread"], 6)
        if found:
            self.batches[batch_id] = sorted(repr(sorted(row.items())) for row in found)


def run(rows: Any, mode: str, checkpoint: Path) -> tuple[dict[int, list[str]], Any]:
    sink = Collect()
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(sink).start()
    query.awaitTermination()
    return sink.batches, query


def dropped(query: Any) -> int:
    operators = [operator for progress in query.recentProgress for operator in progress["stateOperators"]]
    return sum(operator["numRowsDroppedByWatermark"] for operator in operators)


@pytest.mark.parametrize(
    ("kind", "mode", "plan"),
    [
        pytest.param("sliding", "append", "own", marks=pytest.mark.slow),
        pytest.param("sliding", "update", "own", marks=pytest.mark.slow),
        pytest.param("tumbling", "update", "own", marks=pytest.mark.slow),
        pytest.param("session", "append", "own", marks=pytest.mark.slow),
        pytest.param("sliding", "append", None, marks=pytest.mark.slow),
        pytest.param("sliding", "update", None, marks=pytest.mark.slow),
        pytest.param("tumbling", "update", None, marks=pytest.mark.slow),
        ("session", "append", None),
    ],
)
def test_every_batch_is_sparks(spark: Any, tmp_path: Path, kind: str, mode: str, plan: Any) -> None:
    from pyspark.sql import functions as F

    write_batches(tmp_path / "data", drawn(4))
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    events = files.withWatermark("ts", "40 seconds")
    balanced = unskew.balance(events, "user", channels=2, plan=plan, tolerance=0.01, min_gain=0.0)
    if kind == "session":
        ours, window = balanced.session_window("3 seconds"), F.session_window("ts", "3 seconds")
    elif kind == "sliding":
        ours = balanced.window("30 seconds", "20 seconds", offset="5 seconds")  # the mode is said as with Spark
        window = F.window("ts", "30 seconds", "20 seconds", "5 seconds")
    else:
        ours, window = balanced.window("20 seconds", output_mode=mode), F.window("ts", "20 seconds")
    results = {
        "n": "count",
        "total": "sum(amount)",
        "spread": "var_pop(amount)",
        "middle": "median(amount)",
        "upper": "percentile(amount, 0.9)",
        "near": "percentile_approx(amount, 0.3)",
    }
    if plan is None:  # those that Spark can combine
        results = {name: results[name] for name in ("n", "total", "spread")}
    native = events.groupBy("user", window).agg(
        *(F.expr("count(*)" if text == "count" else text).alias(name) for name, text in results.items()),
        *([] if plan is None else [F.sort_array(F.collect_set("amount")).alias("some")]),
    )
    if plan is not None:
        results["some"] = "collect_set(amount, 1000)"
    expected, native_query = run(native, mode, tmp_path / "native")
    got, query = run(ours.aggregate(**results), mode, tmp_path / "ours")
    assert got == expected
    assert sum(map(len, expected.values())) > 100
    assert (len(query.moves) > 0) == (plan == "own"), "what Spark has combined is not planned"
    assert dropped(native_query) > 0, "something was late"
    if kind != "session":  # for these Spark counts rows after combining them on each of its own partitions
        assert sum(figures.late_rows for figures in query.figures) == dropped(native_query)


@pytest.mark.slow
def test_a_query_that_is_stopped_goes_on_with_its_windows_and_watermark(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    tables = drawn(4, rows=150)
    (tmp_path / "data").mkdir()
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    events = files.withWatermark("ts", "40 seconds")
    spread = F.var_pop("amount").alias("spread")
    native = events.groupBy("user", F.window("ts", "20 seconds")).agg(F.count("*").alias("n"), spread)
    windows = unskew.balance(events, "user", channels=2, tolerance=0.01, min_gain=0.0).window("20 seconds")
    ours = windows.aggregate(n="count", spread="var_pop(amount)")
    for first in (0, 2):
        write_batches(tmp_path / "data", tables[first : first + 2], first=first)
        expected, _ = run(native, "append", tmp_path / "native")
        got, _ = run(ours, "append", tmp_path / "ours")
        assert got == expected != {}


def test_the_stream_must_have_what_windows_need(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", drawn(1, rows=3))
    events = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "data"))
    timeless = unskew.balance(events, "user").window("1 minute", on="ts").aggregate(n="count")
    for writer in (timeless.writeStream.start, lambda: timeless.writeStream.outputMode("append")):
        with pytest.raises(ArgumentError, match="append mode needs a watermark"):
            writer()
    timed = unskew.balance(events.withWatermark("ts", "1 minute"), "user")
    with pytest.raises(ArgumentError, match="append mode"):
        timed.window("1 minute", output_mode="append").aggregate(n="count").writeStream.outputMode("update")
    with pytest.raises(ArgumentError, match="append mode"):
        timed.session_window("1 minute").aggregate(n="count").writeStream.outputMode("update")
    with pytest.raises(ArgumentError, match="no such output mode"):
        timed.window("1 minute").aggregate(n="count").writeStream.outputMode("replace")
    with pytest.raises(ArgumentError, match="cannot be split"):
        shared = unskew.balance(events, "user", split="auto").window("1 minute", on="ts", output_mode="update")
        shared.aggregate(n="count")


def test_planners_are_told_how_the_operator_grows(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", drawn(1, rows=3))
    events = spark.readStream.schema(SCHEMA).parquet(str(tmp_path / "data"))
    stage = unskew.balance(events, "user", planner="scan").aggregate(n="count")
    resources = stage.settings.planning.planner.resources()
    assert [resource.name for resource in resources] == ["constant", "linear", "linear"]
    chosen = unskew.planner("scan", compute="quadratic")
    stage = unskew.balance(events, "user", planner=chosen).aggregate(n="count")
    assert stage.settings.planning.planner == chosen
