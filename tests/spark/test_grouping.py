"""Keys of streams as ``groupBy`` takes them: names in any case, expressions, fields, structs; beside Spark's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from tests.spark.test_grouped import check_same, drawn, run, stream

import unskew
from unskew.errors import ArgumentError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

OUT, STATE = "key string, columns string, n long", "n long"


def events_in(spark: Any, tmp_path: Path) -> Any:
    return stream(spark, Path(write_batches(tmp_path / "data", drawn(3)))).withColumn("s", F.struct("user", "items"))


def counted(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count the rows so far."""
    seen = list(frames)
    columns = str([name for name in seen[0].columns if name not in ("one", "two")])
    n = (state.get[0] if state.exists else 0) + sum(map(len, seen))
    state.update((n,))
    yield pd.DataFrame({"key": [str(key)], "columns": [columns], "n": [n]})


def keys() -> list[Any]:
    return ["USER", F.col("S.Items"), (F.col("items") % 3).alias("user"), F.col("s"), "user"]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda groups: groups.agg(F.sum("items"), F.count("*"), F.max("price")), id="aggregates"),
        pytest.param(lambda groups: groups.sum(), id="sums of every number", marks=pytest.mark.slow),
    ],
)
def test_aggregates_by_expressions(spark: Any, tmp_path: Path, make: Callable[[Any], Any]) -> None:
    check_same(events_in(spark, tmp_path), keys(), make, "update", tmp_path)


@pytest.mark.slow
def test_aggregates_by_expressions_and_windows(spark: Any, tmp_path: Path) -> None:
    grouping = [F.upper("user"), F.window("ts", "20 seconds"), F.col("ITEMS") % 2]
    check_same(events_in(spark, tmp_path), grouping, lambda groups: groups.count(), "append", tmp_path)


@pytest.mark.slow
def test_functions_by_expressions_are_those_by_columns(spark: Any, tmp_path: Path) -> None:
    """Spark's functions with state take expressions only as columns."""
    events, grouping = events_in(spark, tmp_path), [F.upper("User"), F.col("s.items") % 3]

    def call(groups: Any) -> Any:
        return groups.applyInPandasWithState(counted, OUT, STATE, "update", "NoTimeout")

    added = events.select("*", grouping[0].alias("one"), grouping[1].alias("two"))
    expected = run(call(added.groupBy("one", "two")), "update", tmp_path / "native")
    assert run(call(unskew.balance(events, *grouping, channels=2)), "update", tmp_path / "ours") == expected
    assert len(expected[1]) > 1


def test_keys_that_state_has_neither_here_nor_under_spark(spark: Any, tmp_path: Path) -> None:
    events = events_in(spark, tmp_path)
    window = F.window("ts", "20 seconds")
    with pytest.raises(AnalysisException):
        events.groupBy("user", window).applyInPandasWithState(counted, OUT, STATE, "update", "NoTimeout")
    with pytest.raises(ArgumentError, match="windows are for aggregates"):
        unskew.balance(events, "user", window).applyInPandasWithState(counted, OUT, STATE, "update", "NoTimeout")
    with pytest.raises(ArgumentError, match="there is no key"):
        unskew.balance(events).applyInPandasWithState(counted, OUT, STATE, "update", "NoTimeout")


def test_names_of_keys_are_sparks(spark: Any, tmp_path: Path) -> None:
    events = events_in(spark, tmp_path)
    grouping = ["USER", F.lower("user"), F.col("s.items"), (F.col("items") + 1).alias("user")]
    stage = unskew.balance(events, *grouping).count()
    native = events.groupBy(*grouping).count().schema
    assert stage.output_schema.simpleString() == native.simpleString()
    assert unskew.balance(events, "USER").key == ("user",)
    assert unskew.balance(events, F.lower("user")).key == ("lower(user)",)
