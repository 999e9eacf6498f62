"""The three jobs of the guide to stateful processors give what plain Python makes of the same rows."""

from __future__ import annotations

import runpy
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

import unskew
from unskew.testing import write_batches
from unskew.versions.arrow import from_arrow_schema

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLES / "processors.py"), run_name="__main__")


def stream(spark: SparkSession, folder: Path, tables: list[pa.Table]) -> DataFrame:
    files = spark.readStream.schema(from_arrow_schema(tables[0].schema)).option("maxFilesPerTrigger", 1)
    return files.parquet(write_batches(folder, tables))


def rows_of(stage: Any, checkpoint: Path) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(lambda rows, batch_id: found.extend(map(tuple, rows.collect()))).start().awaitTermination()
    return sorted(found)


def test_sessions(spark: SparkSession, tmp_path: Path, jobs: dict[str, Any]) -> None:
    minutes = [[("ada", 60), ("bob", 65), ("ada", 80)], [("cy", 200)], [("ada", 205), ("cy", 210)], [("dan", 900)]]
    tables = [
        pa.table(
            {
                "user": [user for user, _ in batch],
                "at": pa.array([60_000_000 * minute for _, minute in batch]).cast(pa.timestamp("us", "UTC")),
            }
        )
        for batch in minutes
    ]
    clicks = stream(spark, tmp_path / "rows", tables).withWatermark("at", "10 minutes")
    stage = unskew.balance(clicks, "user", channels=2).transformWithStateInPandas(
        statefulProcessor=jobs["Sessions"](),
        outputStructType="user string, start timestamp, last timestamp, clicks int",
        outputMode="Append",
        timeMode="EventTime",
    )
    found = [
        (user, int(start.timestamp()) // 60, int(last.timestamp()) // 60, n)
        for user, start, last, n in rows_of(stage, tmp_path / "checkpoint")
    ]
    # rows of a batch come before its timers, so ada goes on where the watermark has passed the end of her session
    assert found == [("ada", 60, 205, 3), ("bob", 65, 65, 1), ("cy", 200, 210, 2)]


def test_fraud_rules(spark: SparkSession, tmp_path: Path, jobs: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    tables, expected, recent = [], [], defaultdict(list)
    for batch in range(3):
        cards = [f"card {n}" for n in random.integers(0, 5, 60)]
        amounts = random.choice([1.0, 1.5, 80.0, 900.0], 60, p=[0.4, 0.3, 0.2, 0.1]).tolist()
        payments = list(range(60 * batch, 60 * batch + 60))
        tables.append(pa.table({"card": cards, "payment": payments, "amount": amounts}))
        for card, payment, amount in zip(cards, payments, amounts, strict=True):
            small = sum(each <= 2 for each in recent[card][-5:])
            if amount >= 500 and small >= 3:
                expected.append((card, payment, amount, small))
            recent[card].append(amount)
    stage = unskew.balance(stream(spark, tmp_path / "rows", tables), "card", channels=2).transformWithState(
        statefulProcessor=jobs["FraudRules"](),
        outputStructType="card string, payment long, amount double, small int",
        outputMode="Append",
        timeMode="ProcessingTime",
    )
    assert len(expected) > 5
    assert rows_of(stage, tmp_path / "checkpoint") == sorted(expected)


@pytest.mark.parametrize("home", ["pyspark.sql.streaming.tws_tester", "unskew.testing"])  # Spark's since 4.2
def test_fraud_rules_key_by_key(spark: SparkSession, jobs: dict[str, Any], home: str) -> None:
    tester = pytest.importorskip(home).TwsTester(jobs["FraudRules"](), timeMode="ProcessingTime")
    small = [Row(payment=n, amount=1.0) for n in range(3)]
    assert tester.test("card 1", small) == []
    alarm = Row(card="card 1", payment=3, amount=900.0, small=3)
    assert tester.test("card 1", [Row(payment=3, amount=900.0)]) == [alarm]
    tester.setProcessingTime(3_599_999)
    assert tester.peekListState("recent", "card 1") == [(1.0,), (1.0,), (1.0,), (900.0,)]
    tester.setProcessingTime(3_600_000)
    assert (tester.peekListState("recent", "card 1") == []) == (home == "unskew.testing")  # Spark's lets nothing expire


@pytest.mark.slow
def test_inventory(spark: SparkSession, tmp_path: Path, jobs: dict[str, Any]) -> None:
    tables = [
        pa.table({"shop": ["A", "A", "B"], "article": ["pen", "ink", "pen"], "change": [-3, -8, 4]}),
        pa.table({"shop": ["A", "B", "A"], "article": ["ink", "pen", "pen"], "change": [3, 2, -9]}),
    ]
    counted = spark.createDataFrame(
        [("A", "pen", 12), ("A", "ink", 6), ("C", "pen", 1)], "shop string, article string, pieces long"
    )
    sales = stream(spark, tmp_path / "rows", tables)
    arguments = {
        "outputStructType": "shop string, article string, pieces long",
        "outputMode": "Update",
        "timeMode": "None",
    }
    for form, initial in (
        ("grouped", counted.groupBy("shop")),
        ("balanced", unskew.balance(counted, "shop")),
        ("frame", counted),
    ):
        stage = unskew.balance(sales, "shop", channels=2).transformWithStateInPandas(
            statefulProcessor=jobs["Inventory"](), initialState=initial, **arguments
        )
        found = rows_of(stage, tmp_path / form)
        assert found == [("A", "ink", 0), ("A", "ink", 3), ("A", "pen", 0), ("B", "pen", 4)]
        held = {
            row["shop"]: {e["key"]["article"]: e["value"]["pieces"] for e in row["stock"]}
            for row in unskew.read_state(spark, str(tmp_path / form)).collect()
        }
        assert held == {"A": {"ink": 3}, "B": {"pen": 6}, "C": {"pen": 1}}
