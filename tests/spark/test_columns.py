"""Aggregates and grouping columns that are read or refused before any query starts."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import functions as F

import unskew
from unskew.errors import ArgumentError, ColumnError, UnskewError

pytestmark = pytest.mark.spark

SCHEMA = "user string, items int, price double, `odd name` int, `a.b` int, ts timestamp, s struct<x: int>"


@pytest.fixture(scope="module")
def events(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return spark.readStream.schema(SCHEMA).parquet(str(tmp_path_factory.mktemp("none")))


def operator(stage: Any) -> str:
    return repr(stage.operator)


def test_the_operator_is_called_after_its_expressions(events: Any) -> None:
    """And so is its part of the checkpoint: an expression that has changed is another query."""
    stream = unskew.balance(events, "user")
    price = F.col("price") * 1.5
    stage = stream.agg(F.sum(price).alias("total"), F.avg(price), F.count("*"))
    assert operator(stage) == (
        "Aggregate(total='sum(`(price * 1.5D)`)', avg((price * 1%2E5))='avg(`(price * 1.5D)`)', count(1)='count')"
    )
    assert stage.events.columns == ["user", "=(price * 1%2E5D)"], "one column for both"
    assert stage.output_schema.names == ["user", "total", "avg((price * 1.5))", "count(1)"]
    assert operator(stream.aggregate(total="sum(price * 1.5D)")) == "Aggregate(total='sum(`(price * 1.5D)`)')"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("sum(items)", "sum(items)"),
        ("sum(odd name)", "sum(odd name)"),
        ("sum(`odd name`)", "sum(```odd name```)"),
        ("sum(`a.b`)", "sum(```a.b```)"),
        ("sum(s.x)", "sum(`s.``x```)"),
        ("sum(items * `odd name`)", "sum(`(items * ``odd name``)`)"),
        ("count(if(user = 'a, (b', 1, NULL))", "count(`(IF((user = 'a, (b'), 1, CAST(NULL AS INT)))`)"),
        ("max_by(if(items > 1, user, 'x'), ts)", "max_by(`(IF((items > 1), user, 'x'))`, ts)"),
        ("first(if(items > 1, user, 'x'), true)", "first(`(IF((items > 1), user, 'x'))`, true)"),
        ("top(items * 2, 3)", "top(`(items * 2)`, 3)"),
        ("count(1)", "count"),
    ],
)
def test_words_are_columns_or_expressions(events: Any, given: str, read: str) -> None:
    stage = unskew.balance(events, "user").aggregate(n=given)
    assert operator(stage) == f"Aggregate(n={read!r})"
    assert not any("." in name for name in stage.events.columns)


LISTED = r".*sum\(x\).*min_by\(x, y\), max_by\(x, y\)"


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (F.corr, r"no such aggregate, got 'corr\(items, price\)'" + LISTED),
        ("corr(items, price)", r"no such aggregate, got 'corr\(items, price\)'" + LISTED),
        (lambda a, b: F.sum_distinct(a), "no aggregates with DISTINCT" + LISTED),
        ("sum(DISTINCT items)", "no aggregates with DISTINCT" + LISTED),
        ("sum(items) FILTER (WHERE price > 1)", r"with FILTER, got 'sum\(items\) FILTER" + LISTED),
        (lambda a, b: F.sum(a) + 1, r"no such aggregate, got '\+\(sum\(items\), 1\)'" + LISTED),
        ("sum(items) / count(price)", "no such aggregate" + LISTED),
        (lambda a, b: F.sum(F.max(a)), r"one value of each row, got 'max\(items\)'" + LISTED),
        (
            lambda a, b: F.expr("count(items, price)"),
            "another number of arguments" + LISTED,
        ),
        ("max_by(items)", "no such aggregate|another number of arguments"),
        (lambda a, b: F.col(a), "no such aggregate, got 'items'" + LISTED),
        (lambda a, b: F.expr("first(items, price > 1)"), "must be a literal" + LISTED),
        ("sum(*)", "one value of each row"),
        ("sum(explode(array(items)))", "one value of each row"),
        ("sum(items items items)", "Spark cannot parse this"),
        ("product(items items)", "no such aggregate"),
    ],
)
def test_what_unskew_does_not_have_is_named(events: Any, aggregate: Any, message: str) -> None:
    stream = unskew.balance(events, "user")
    with pytest.raises(ArgumentError, match=message):
        if isinstance(aggregate, str):
            stream.aggregate(n=aggregate)
        else:
            stream.agg(aggregate("items", "price"))


def test_expressions_that_only_look_alike_are_refused(events: Any) -> None:
    one, other = (F.udf(f, "int") for f in (lambda x: x + 1, lambda x: x + 2))
    stream = unskew.balance(events, "user")
    stream.agg(F.sum(one("items")), F.max(one("items")))
    with pytest.raises(ArgumentError, match=r"two different expressions have the same text.*withColumn"):
        stream.agg(F.sum(one("items")), F.sum(other("items")))
    taken = unskew.balance(events.withColumn("=(items * 2)", F.lit(0)), "user")
    with pytest.raises(ColumnError, match="name that this expression needs"):
        taken.agg(F.sum(F.col("items") * 2))


def test_grouping_columns_are_checked(events: Any) -> None:
    timed = events.withWatermark("ts", "1 minute")
    window = F.window("ts", "1 minute")
    for call, message in (
        (lambda: unskew.balance(events, "user", window, window), "one window"),
        (lambda: unskew.balance(events, window).count(), "there is no key"),
        (
            lambda: unskew.balance(events, "user", F.window(F.col("ts") + F.expr("interval 1 day"), "1 minute")),
            "a key must be",
        ),
        (lambda: unskew.balance(events, "user", F.session_window("ts", F.col("user"))), "fixed durations"),
        (lambda: unskew.balance(events, "user", window).window("1 minute"), "window already"),
        (lambda: unskew.balance(events, "user", window).apply(None), "windows are for aggregates"),
        (lambda: unskew.balance(timed, "user", "ts").count(), "a key column has a watermark"),
        (
            lambda: unskew.balance(timed.withColumn("t", F.col("ts")), "user", F.window("t", "1 minute")).count(),
            "agree",
        ),
        (
            lambda: unskew.balance(timed.withColumn("ts", F.lit(None).cast("timestamp")), "user", window).count(),
            "agree",
        ),
        (lambda: unskew.balance(events, "user").agg(), "columns, or one dictionary"),
        (lambda: unskew.balance(events, "user").agg(F.sum("items"), {"price": "sum"}), "columns, or one dictionary"),
        (lambda: unskew.balance(events, "user").agg({"items": "product"}), "no such aggregate"),
        (lambda: unskew.balance(events, "user").count().writeStream.outputMode("append"), "append mode needs windows"),
        (lambda: unskew.balance(events, "user").count().writeStream.outputMode("later"), "no such output mode"),
        (
            lambda: unskew.balance(events, "user", split="auto").count().writeStream.outputMode("complete"),
            "cannot be split",
        ),
        (
            lambda: unskew.balance(events, "user").count().writeStream.outputMode("complete").start("x"),
            "no complete mode",
        ),
        (lambda: unskew.balance(events, "user").count().writeStream.outputMode("complete").toTable("x"), "appended to"),
    ):
        with pytest.raises(UnskewError, match=message):
            call()


def test_a_type_that_is_not_sparks_is_refused(events: Any) -> None:
    lower = events.withColumn("user", F.expr("user COLLATE UTF8_LCASE"))
    with pytest.raises(ColumnError, match="Spark's result has the type string collate UTF8_LCASE"):
        unskew.balance(lower, "items").agg(F.max("user"))
