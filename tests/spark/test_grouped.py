"""Aggregates as Spark spells them, batch by batch beside Spark's own on the same files."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import unskew
from unskew.errors import CheckpointError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

SCHEMA = "user string, `o'dd name` int, items int, price double, paid decimal(8,2), ts timestamp"
SECOND = 1_000_000


def drawn(batches: int, rows: int = 150) -> list[pa.Table]:
    """Zipf keys that drift, times out of order and far too late, nulls in keys, values and times; one empty batch."""
    random, tables = np.random.default_rng(9), []
    for batch in range(batches):
        n = 0 if batch == 2 else rows
        user = [f"u{(int(number) + 4 * batch) % 20}" for number in random.zipf(1.3, n)]
        second = 10_000 + 30 * batch + random.integers(-60, 30, n) - np.where(random.random(n) < 0.05, 300, 0)
        columns = {
            "user": pa.array([None if name == "u3" else name for name in user], pa.string()),
            "o'dd name": pa.array(random.integers(0, 3, n), pa.int32()),
            "items": pa.array(random.integers(-50, 50, n), pa.int32(), mask=random.random(n) < 0.1),
            "price": pa.array(random.integers(0, 640, n) / 64, mask=random.random(n) < 0.1),
            "paid": pa.array(
                [Decimal(cents) / 100 for cents in random.integers(0, 10**6, n).tolist()], pa.decimal128(8, 2)
            ),
            "ts": pa.array(second * SECOND, pa.timestamp("us", "UTC"), mask=random.random(n) < 0.02),
        }
        tables.append(pa.table(columns))
    return tables


def stream(spark: Any, folder: Path) -> Any:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files.withWatermark("ts", "40 seconds")


def run(rows: Any, mode: str, checkpoint: Path) -> tuple[list[tuple[str, str]], dict[int, list[str]]]:
    """Return the columns that the sink sees, and the rows of each batch that has any."""
    columns: list[tuple[str, str]] = []
    batches: dict[int, list[str]] = {}

    def sink(rows: Any, batch_id: int) -> None:
        columns[:] = [(field.name, field.dataType.simpleString()) for field in rows.schema]
        found = sorted(repr([round(v, 9) if isinstance(v, float) else v for v in row]) for row in rows.collect())
        if found:
            batches[batch_id] = found

    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).foreachBatch(sink).start().awaitTermination()
    return columns, batches


def check_same(
    events: Any, grouping: list[Any], aggregate: Callable[[Any], Any], mode: str, folder: Path, **options: Any
) -> dict[int, list[str]]:
    expected = run(aggregate(events.groupBy(*grouping)), mode, folder / "native")
    balanced = unskew.balance(events, *grouping, channels=2, tolerance=0.01, min_gain=0.0, **options)
    assert run(aggregate(balanced), mode, folder / "ours") == expected
    assert len(expected[1]) > 1
    return expected[1]


def many(groups: Any) -> Any:
    """Results with the names that Spark gives, one name twice, one that is also a key's, and an expression twice."""
    both = F.col("items") * F.col("price")
    return groups.agg(
        F.sum("items").alias("total"),
        F.count("*"),
        F.count("price"),
        F.sum(both),
        F.avg(both),
        F.sum(F.col("price") * 1.5),
        F.max("user").alias("user"),
        F.max("ts"),
        F.avg("paid"),
        F.sum("items"),
        F.expr("sum(items)"),
        F.min(F.concat("user", F.lit(" said 'a.b', (`%`"))),
        F.sum(F.when(F.col("user") == "it's, ('u1'", 2).otherwise(1)),
        F.max_by("items", F.col("items") * 2),
        F.approx_count_distinct("items"),
    )


def test_running_aggregates_are_sparks(spark: Any, tmp_path: Path) -> None:
    events = stream(spark, Path(write_batches(tmp_path / "data", drawn(4))))
    check_same(events, [F.col("user"), "o'dd name"], many, "update", tmp_path)


@pytest.mark.slow
def test_windows_stand_where_spark_has_them(spark: Any, tmp_path: Path) -> None:
    events = stream(spark, Path(write_batches(tmp_path / "data", drawn(4))))
    window = F.window("ts", "30 seconds", "20 seconds", "5 seconds")
    check_same(events, [events["user"], window, "o'dd name"], many, "append", tmp_path)


def test_complete_mode_has_every_window_and_every_late_row(spark: Any, tmp_path: Path) -> None:
    events = stream(spark, Path(write_batches(tmp_path / "data", drawn(4))))
    grouping = [F.window("ts", "20 seconds").alias("w"), "user"]
    batches = check_same(events, grouping, lambda groups: groups.sum("items"), "complete", tmp_path)
    assert sorted(batches) == [0, 1, 2, 3], "also in the batch without rows"
    assert batches[1] == batches[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grouping", "aggregate", "mode"),
    [
        (["user"], lambda groups: groups.count(), "complete"),
        (["user"], many, "complete"),
        (["user"], lambda groups: groups.sum(), "update"),
        (["user", "items"], lambda groups: groups.avg("price", "items"), "update"),
        (["user"], lambda groups: groups.mean("price"), "update"),
        (["user"], lambda groups: groups.min("price", "paid"), "update"),
        (["user"], lambda groups: groups.max(), "update"),
        (["user"], lambda groups: groups.agg({"items": "sum"}), "update"),
        (
            ["user"],
            lambda groups: groups.agg(
                {"*": "count", "items": "mean", "price": "std", "paid": "average", "ts": "max", "o'dd name": "size"}
            ),
            "update",
        ),
        (["user", F.window, "o'dd name"], lambda groups: groups.count(), "update"),
        ([F.window, "user"], many, "update"),
        ([F.session_window, "user"], lambda groups: groups.count(), "append"),
        (["o'dd name", F.session_window, "user"], many, "append"),
    ],
)
def test_every_spelling_is_sparks(spark: Any, tmp_path: Path, grouping: Any, aggregate: Any, mode: str) -> None:
    events = stream(spark, Path(write_batches(tmp_path / "data", drawn(4))))
    windows = {
        F.window: lambda: F.window("ts", "20 seconds"),
        F.session_window: lambda: F.session_window("ts", "3 seconds"),
    }
    check_same(
        events, [each if isinstance(each, str) else windows[each]() for each in grouping], aggregate, mode, tmp_path
    )


@pytest.mark.slow
def test_words_give_the_same_as_columns(spark: Any, tmp_path: Path) -> None:
    events = stream(spark, Path(write_batches(tmp_path / "data", drawn(4))))
    text = "sum(if(user = 'u1, (', 1.5, items * price))"
    for name, grouping, mode in (
        ("running", ["user"], "update"),
        ("window", ["user", F.window("ts", "20 seconds")], "append"),
        ("session", ["user", F.session_window("ts", "3 seconds")], "append"),
    ):
        native = events.groupBy(*grouping).agg(F.expr(text).alias("total"), F.count("*").alias("n"))
        expected = run(native, mode, tmp_path / f"native {name}")
        balanced = unskew.balance(events, *grouping, channels=2)
        assert run(balanced.aggregate(total=text, n="count"), mode, tmp_path / f"ours {name}") == expected
    by_method = (
        unskew.balance(events, "user")
        .session_window("3 seconds")
        .agg(F.expr(text).alias("total"), F.count("*").alias("n"))
    )
    assert run(by_method, "append", tmp_path / "method") == expected


@pytest.mark.slow
def test_a_query_goes_on_with_its_expressions_and_refuses_others(spark: Any, tmp_path: Path) -> None:
    tables = drawn(5)
    (tmp_path / "data").mkdir()
    for first in (0, 3):
        write_batches(tmp_path / "data", tables[first : first + 3], first=first)
        for mode in ("update", "complete"):
            events = stream(spark, tmp_path / "data")
            aggregates = [F.sum(F.col("price") * 1.5), F.max(F.concat("user", F.lit("it's")))]
            expected = run(events.groupBy("user").agg(*aggregates), mode, tmp_path / f"native {mode}")
            ours = unskew.balance(events, "user", channels=2).agg(*aggregates)
            assert run(ours, mode, tmp_path / f"ours {mode}") == expected
            assert expected[1]
    changed = unskew.balance(events, "user").agg(F.sum(F.col("price") * 1.6), aggregates[1])
    with pytest.raises(CheckpointError, match=r"1\.5D"):
        run(changed, "update", tmp_path / "ours update")
    with pytest.raises(CheckpointError, match="complete"):
        run(ours, "update", tmp_path / "ours complete")


def test_a_memory_sink_shows_the_last_table(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": ["a", "b", "a"]}), pa.table({"key": ["b"]})])
    events = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    counted = unskew.balance(events, "key", channels=2).count()
    writer = counted.writeStream.format("memory").queryName("complete").outputMode("complete")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(map(tuple, spark.table("complete").collect())) == [("a", 2), ("b", 2)]


def test_large_output_may_have_a_name_twice(spark: Any, tmp_path: Path) -> None:
    """It is written to files, and read with ``mapInArrow``."""
    from dataclasses import replace

    write_batches(tmp_path / "data", [pa.table({"key": np.arange(50) % 7})])
    events = spark.readStream.schema("key long").parquet(str(tmp_path / "data"))
    stage = unskew.balance(events, "key", channels=2).agg(F.sum("key"), F.sum("key"), F.count("*").alias("a.b`"))
    few = replace(
        stage, in_mode=None, settings=replace(stage.settings, keeping=replace(stage.settings.keeping, inline_bytes=0))
    )
    columns, batches = run(few, "update", tmp_path / "ours")
    assert (columns, batches) == run(
        events.groupBy("key").agg(F.sum("key"), F.sum("key"), F.count("*").alias("a.b`")), "update", tmp_path / "native"
    )
