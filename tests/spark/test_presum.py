"""Aggregates that Spark adds up before Python sees a row: every batch as Spark's own ``groupBy().agg()`` gives it."""

from __future__ import annotations

import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

import unskew
from unskew.spark.jobs import collected
from unskew.testing import write_batches
from unskew.versions import SPARK

pytestmark = pytest.mark.spark

KINDS = {
    "i": pa.int32(),
    "n": pa.int64(),
    "x": pa.float64(),
    "price": pa.decimal128(9, 2),
    "word": pa.string(),
    "flag": pa.bool_(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "bare": pa.timestamp("us"),
}
SCHEMA = (
    "user string, kind double, i int, n long, x double, price decimal(9,2), word string, flag boolean, day date, "
    "at timestamp, bare timestamp_ntz"
)
RESULTS = {
    "rows": "count",
    **{f"{name}_count": f"count({name})" for name in KINDS},
    **{f"{name}_{what}": f"{what}({name})" for name in KINDS for what in ("min", "max")},
    **{f"{name}_{what}": f"{what}({name})" for name in ("i", "n", "x", "price") for what in ("sum", "mean")},
    "x_var": "var_samp(x)",
    "n_dev": "stddev_pop(n)",
    "dearest": "max_by(word, price)",
    "cheapest": "min_by(word, price)",
}


def drawn(seed: int, rows: int = 400) -> pa.Table:
    """Draw rows with nulls everywhere, NaN, both zeros, and a key that has most rows."""
    rng = np.random.default_rng(seed)

    def holes(values: list[Any], kind: pa.DataType) -> pa.Array:
        gone = rng.random(len(values)) < 0.2
        return pa.array([None if empty else value for value, empty in zip(values, gone, strict=True)], kind)

    numbers = rng.integers(-50, 50, rows)
    floats = np.where(rng.random(rows) < 0.02, np.nan, np.where(rng.random(rows) < 0.1, -0.0, numbers / 4))
    plain = {
        "i": numbers.tolist(),
        "n": (numbers * 10**14).tolist(),
        "x": floats.tolist(),
        "price": [decimal.Decimal(int(value)).scaleb(-2) for value in rng.permutation(rows) + seed * rows],
        "word": [f"w{value}" for value in numbers],
        "flag": (numbers > 0).tolist(),
        "day": numbers.tolist(),
        "at": (numbers * 10**9).tolist(),
        "bare": (numbers * 10**9).tolist(),
    }
    users = [None if u == 3 else f"u{u}" for u in rng.zipf(1.3, rows) % 40]
    keys = rng.choice([0.0, -0.0, np.nan, 2.5], rows)
    columns = {name: holes(values, KINDS[name]) for name, values in plain.items()}
    return pa.table({"user": pa.array(users, pa.string()), "kind": pa.array(keys), **columns})


class Collect:
    def __init__(self) -> None:
        self.batches: dict[int, list[str]] = {}

    def __call__(self, rows: Any, batch_id: int) -> None:
        found = [row.asDict(recursive=True) for row in rows.collect()]
        for row in found:
            for name, value in row.items():  # last digits, and which of two zeros, depend on the order of the rows
                row[name] = float(f"{value:.9g}") + 0.0 if isinstance(value, float) else value
        if found:
            self.batches[batch_id] = sorted(repr(sorted(row.items())) for row in found)


def run(rows: Any, mode: str, checkpoint: Path) -> tuple[dict[int, list[str]], Any]:
    sink = Collect()
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).foreachBatch(sink).start()
    query.awaitTermination()
    return sink.batches, query


def events_in(spark: Any, folder: Path, schema: str = SCHEMA, files: int = 1) -> Any:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(str(folder))


def ways(query: Any) -> set[str]:
    return {figures.way for figures in query.figures}


def all_nullable(schema: StructType) -> StructType:
    """Return a schema as Spark's stateful operators have it since 4.3."""
    return StructType([StructField(field.name, field.dataType, True, field.metadata) for field in schema])


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_aggregate_is_sparks_in_every_batch(spark: Any, tmp_path: Path, adaptive: str) -> None:
    spark = spark.newSession()
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    write_batches(tmp_path / "data", [drawn(seed) for seed in range(4)])
    events = events_in(spark, tmp_path / "data", files=2)
    native = events.groupBy("user", "kind").agg(
        *(F.expr("count(*)" if text == "count" else text).alias(name) for name, text in RESULTS.items())
    )
    stage = unskew.balance(events, ["user", "kind"], channels=3).aggregate(**RESULTS)
    assert stage.output_schema == all_nullable(native.schema)
    if SPARK >= (4, 3):
        assert stage.output_schema == native.schema
    expected, _ = run(native, "update", tmp_path / "native")
    got, query = run(stage, "update", tmp_path / "ours")
    for batch_id, rows in expected.items():
        assert sorted(set(got[batch_id]) ^ set(rows)) == []
    assert len(got) == len(expected) == 2
    assert ways(query) <= {"direct", "whole"}


@pytest.mark.slow
def test_first_and_last_go_by_the_order_of_rows(spark: Any, tmp_path: Path) -> None:
    batches = [drawn(seed, 60) for seed in range(3)]
    write_batches(tmp_path / "data", batches)
    results = {"a": "first(word)", "b": "last(word)", "c": "first(word, true)", "d": "last(word, true)"}
    _, query = run(
        unskew.balance(events_in(spark, tmp_path / "data"), "user", channels=2).aggregate(**results),
        "update",
        tmp_path / "ours",
    )
    rows = pa.concat_tables(batches).to_pylist()
    held = {row.user: row for row in unskew.read_state(spark, str(tmp_path / "ours")).collect()}
    for user in {row["user"] for row in rows}:
        words = [row["word"] for row in rows if row["user"] == user]
        valid = [word for word in words if word is not None] or [None]
        assert tuple(held[user][name] for name in "abcd") == (words[0], words[-1], valid[0], valid[-1])
    assert "counted" not in ways(query)


@pytest.mark.slow
def test_windows_on_times_without_a_zone(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [drawn(seed) for seed in range(3)])
    events = events_in(spark, tmp_path / "data")
    stage = unskew.balance(events, "user", channels=2).window("4 hours", "2 hours", on="bare")
    native = events.groupBy("user", F.window("bare", "4 hours", "2 hours"))
    native = native.agg(F.count("*").alias("n"), F.sum("n").alias("total"))
    expected, _ = run(native, "update", tmp_path / "native")
    got, _ = run(stage.aggregate(n="count", total="sum(n)"), "update", tmp_path / "ours")
    assert got == expected != {}


@pytest.mark.slow
def test_a_query_may_change_who_combines_and_move_keys(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [drawn(seed, 200) for seed in range(2)])
    options: list[dict[str, Any]] = [
        {},
        {"plan": "own", "min_gain": -1.0, "tolerance": 0.0},
        {"min_gain": -1.0, "tolerance": 0.0},
        {"split": "auto"},
        {},
    ]
    for number, given in enumerate(options):
        write_batches(tmp_path / "data", [drawn(10 + number, 200)], first=2 + number)
        events = events_in(spark, tmp_path / "data")
        stage = unskew.balance(events, "user", channels=3, **given).aggregate(n="count", total="sum(n)", least="min(x)")
        native = events.groupBy("user").agg(
            F.count("*").alias("n"), F.sum("n").alias("total"), F.min("x").alias("least")
        )
        expected, _ = run(native, "update", tmp_path / "native")
        got, query = run(stage, "update", tmp_path / "ours")
        assert got == expected != {}
        if number == 1:
            assert len(query.moves) > 0


def test_names_may_be_anything(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"p0": ["a", "b", "a"], "state_1": [1.5, 2.5, None], "sum": [1, 2, 3], "ein Wort": ["x", "y", "z"]})
    write_batches(tmp_path / "data", [rows, rows])
    events = events_in(spark, tmp_path / "data", "p0 string, state_1 double, sum long, `ein Wort` string")
    stage = unskew.balance(events, ["p0", "state_1"], channels=2)
    native = events.groupBy("p0", "state_1").agg(F.sum("sum").alias("count"), F.max("ein Wort").alias("p1"))
    expected, _ = run(native, "update", tmp_path / "native")
    got, _ = run(stage.agg(F.sum("sum").alias("count"), F.max("ein Wort").alias("p1")), "update", tmp_path / "ours")
    assert got == expected != {}


def test_another_number_of_channels(spark: Any, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [drawn(0, 200), drawn(1, 200)])
    events = events_in(spark, tmp_path / "data")
    stage = unskew.balance(events, "user", channels=2).aggregate(n="count")
    _, query = run(stage, "update", tmp_path / "ours")
    query.resize(5)
    write_batches(tmp_path / "data", [drawn(2, 200)], first=2)
    _, query = run(stage, "update", tmp_path / "ours")
    assert query.routing_table.channels == 5
    held = {row.user: row.n for row in unskew.read_state(spark, str(tmp_path / "ours")).collect()}
    rows = pa.concat_tables([drawn(seed, 200) for seed in range(3)])
    assert held == {key: rows["user"].to_pylist().count(key) for key in set(rows["user"].to_pylist())}


@pytest.mark.parametrize("batches", [[[2**62, 2**62]], [[2**62], [2**62]]])
def test_a_sum_that_leaves_its_range_is_an_error(spark: Any, tmp_path: Path, batches: list[list[int]]) -> None:
    write_batches(tmp_path / "data", [pa.table({"user": ["a"] * len(rows), "n": rows}) for rows in batches])
    events = events_in(spark, tmp_path / "data", "user string, n long")
    stage = unskew.balance(events, "user").aggregate(total="sum(n)")
    with pytest.raises(Exception, match=r"(?i)overflow|out of the range"):
        run(stage, "update", tmp_path / "ours")


def test_explain_says_who_combines(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_batches(tmp_path / "data", [drawn(0, 10)])
    events = events_in(spark, tmp_path / "data")

    def explained(stage: Any) -> str:
        stage.explain()
        return capsys.readouterr().out

    text = explained(unskew.balance(events, "user").aggregate(n="count", total="sum(n)"))
    assert "Spark combines the rows of a key: count(*), sum(`n`)" in text
    assert "Relation" in text, "Spark's own plan of the rows is there too"
    assert "Python combines the rows of a key" in explained(unskew.balance(events, "user").aggregate(best="top(n, 2)"))
    assert "Every batch is counted" in explained(unskew.balance(events, "user", plan="own").aggregate(n="count"))


def test_a_job_that_came_out_differently_is_run_again() -> None:
    class Results:
        def __init__(self, *said: str) -> None:
            self.said = [*said]

        def toArrow(self) -> str:
            if self.said:
                raise RuntimeError(self.said.pop(0))
            return "rows"

    gave_up = "A shuffle map stage with indeterminate output was failed and retried. However, Spark cannot rollback"
    assert collected(Results(gave_up, gave_up)) == "rows"  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="disk full"):
        collected(Results("disk full"))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="indeterminate"):
        collected(Results(*[gave_up] * 9))  # type: ignore[arg-type]


def test_many_channels_share_tasks(spark: Any, tmp_path: Path) -> None:
    """Which way each batch goes depends on the machine's speed (`tests/runtime/test_ways.py`); its rows do not."""
    sizes = (900, 900, 3000, 3000)
    write_batches(tmp_path / "data", [pa.table({"id": np.arange(rows)}) for rows in sizes])
    events = events_in(spark, tmp_path / "data", "id long")
    found, query = run(unskew.balance(events, "id", channels=64).count(), "update", tmp_path / "checkpoint")
    assert [len(rows) for rows in found.values()] == list(sizes)
    assert all(each.channels == 64 and each.tasks <= 2 for each in query.figures if each.rows)
