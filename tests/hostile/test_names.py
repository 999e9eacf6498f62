"""Columns with odd names: right rows where Spark can hand them to Python, else an error before the query starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import unskew
from unskew.errors import ColumnError
from unskew.operators.presum import quoted
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

ODD = [
    *("with space", "quo'te", 'double"quote', "\u00fcn\u00ef", "\U0001f642", "new\nline", "a,b", "(x)", "%2E", "=x"),
    *("SELECT", "value", "hash", "count", "window", "state", "timeout_ms", "input", "time", "channel", "sequence"),
    *("task", "rows", "batch_id", "key", "blob", "counts"),
]


def rows_of(stage: Any, checkpoint: Path) -> list[Any]:
    found: list[Any] = []
    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect()))).start().awaitTermination()
    return sorted(found, key=repr)


def total(key: Any, rows: Any, state: Any) -> Any:
    return None, (*key, float(rows["amount"].sum()))


@pytest.mark.slow
def test_names_that_work(spark: Any, tmp_path: Path) -> None:
    """All at once in one key, among them the names that unskew itself uses inside."""
    table = pa.table({name: [1, 2, 1, None] for name in ODD} | {"amount": [1.0, 2.0, 3.0, 4.0]})
    folder = write_batches(tmp_path / "rows", [table])
    static = spark.read.parquet(folder)
    events = spark.readStream.schema(static.schema).parquet(folder)
    columns = [F.col(quoted(name)) for name in ODD]
    native = sorted(map(tuple, static.groupBy(*columns).agg(F.sum("amount")).collect()), key=repr)
    balanced = unskew.balance(events, ODD, channels=2)
    assert rows_of(balanced.agg(F.sum("amount")), tmp_path / "combined") == native
    assert set(ODD) <= set(unskew.read_state(spark, str(tmp_path / "combined")).columns)
    schema = f"{', '.join(f'{quoted(name)} long' for name in ODD)}, `a.b` double"
    assert rows_of(balanced.apply_per_key(total, schema, "`back``tick` long"), tmp_path / "called") == native


@pytest.fixture(scope="module")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("named") / "rows"
    write_batches(folder, [pa.table({"k": ["a", "b"], "x": [1, 2]})])
    return spark.readStream.schema("k string, x long").parquet(str(folder))


@pytest.mark.parametrize(("name", "word"), [("a.b", "dot"), ("a`b", "backtick")])
def test_names_that_spark_cannot_hand_over(events: Any, name: str, word: str) -> None:
    renamed = events.withColumnRenamed("k", name)
    with pytest.raises(ColumnError, match=f"with a {word} in its name to Python.*rename it first"):
        unskew.balance(renamed, quoted(name)).count()
    with pytest.raises(ColumnError, match=re.escape(f"Hint: write {quoted(name)}")):
        unskew.balance(renamed, name)
    other = unskew.balance(events.withColumnRenamed("x", name), "k")
    with pytest.raises(ColumnError, match=f"with a {word} in its name"):
        other.apply_per_key(total, "n long", "n long")
    assert other.count().events.columns == ["k"], "a column that nobody reads may have any name"


def test_columns_of_the_same_name(events: Any) -> None:
    twice = events.select("k", "x", F.col("x").alias("x"))
    with pytest.raises(ColumnError, match=r"2 columns have the same name, got 'x'.*rename"):
        unskew.balance(twice, "k").apply_per_key(total, "n long", "n long")
    assert unskew.balance(twice, "k").count().events.columns == ["k"]


@pytest.mark.slow
def test_names_that_differ_in_case(spark: Any, events: Any, tmp_path: Path) -> None:
    try:
        spark.conf.set("spark.sql.caseSensitive", "true")
        both = events.select("k", F.upper("k").alias("K"), "x", (F.col("x") * 10).alias("X"))
        balanced = unskew.balance(both, "k", "K", channels=2)
        assert rows_of(balanced.aggregate(n="sum(x)", N="sum(X)"), tmp_path / "both") == [
            ("a", "A", 1, 10),
            ("b", "B", 2, 20),
        ]
        assert rows_of(unskew.balance(both, "K").count(), tmp_path / "upper") == [("A", 1), ("B", 1)]
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")
    counted = unskew.balance(events, "k", channels=2).aggregate(K="sum(x)")
    assert rows_of(counted, tmp_path / "result") == [("a", 1), ("b", 2)]
