"""What unskew takes from Spark beyond its public API still says what it is taken for."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import Window
from pyspark.sql import functions as F

from unskew.spark.internals import are_equal, plain_column, read_call, read_grouped, read_selected

pytestmark = pytest.mark.spark


def shown(spark: Any, column: Any) -> tuple[str, list[str], str] | None:
    call = read_call(spark, column)
    if call is None:
        return None
    rows = spark.range(1).selectExpr("id", "'x' as `it's`")
    words = [
        "*" if each.star else repr(each.literal) if each.literal is not None else rows.select(each.column).columns[0]
        for each in call.arguments
    ]
    return call.function, words, call.clause


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (lambda: F.sum("id").alias("total"), ("sum", ["id"], "")),
        (lambda: F.expr("SUM(id) AS total"), ("sum", ["id"], "")),
        (lambda: F.count("*"), ("count", ["*"], "")),
        (lambda: F.count(F.lit(1)), ("count", ["'1'"], "")),
        (lambda: F.count(F.lit(None)), ("count", ["NULL"], "")),
        (lambda: F.sum(F.col("id") * 1.5), ("sum", ["(id * 1.5)"], "")),
        (lambda: F.max_by("id", F.col("`it's`")), ("max_by", ["id", "it's"], "")),
        (lambda: F.first("id", True), ("first", ["id", "'true'"], "")),
        (lambda: F.expr("approx_count_distinct(id, 0.01)"), ("approx_count_distinct", ["id", "'0.01'"], "")),
        (lambda: F.sum_distinct("id"), ("sum", ["id"], "DISTINCT")),
        (lambda: F.expr("sum(id) FILTER (WHERE id > 1)"), ("sum", ["id"], "FILTER")),
        (lambda: F.expr("first(id) IGNORE NULLS"), ("first", ["id"], "IGNORE NULLS")),
        (lambda: F.expr("mode() WITHIN GROUP (ORDER BY id)"), ("mode", [], "WITHIN GROUP")),
        (
            lambda: F.window("id", "5 minutes", "1 minute"),
            ("window", ["id", "'5 minutes'", "'1 minute'", "'0 second'"], ""),
        ),
        (lambda: F.session_window("id", "5 minutes"), ("session_window", ["id", "'5 minutes'"], "")),
        (lambda: F.col("id"), None),
        (lambda: F.sum("id").cast("string"), None),
        (lambda: F.expr("case when sum(id) > 1 then 1 end"), None),
    ],
)
def test_a_column_is_read_as_the_call_that_it_is(spark: Any, column: Any, expected: Any) -> None:
    assert shown(spark, column()) == expected


def test_text_that_is_not_sql_is_told(spark: Any) -> None:
    with pytest.raises(ParseException):
        read_call(spark, F.expr("sum(a b c)"))


def test_what_is_selected_is_read_as_spark_has_resolved_it(spark: Any) -> None:
    rows = spark.range(1).selectExpr("id", "'x' as name", "1 as `a.b`", "struct(1 as one) as `both`")
    assert read_selected(rows, F.col("id")) == ("id", "id")
    assert read_selected(rows, F.col("`a.b`")) == ("`a.b`", "a.b")
    assert read_selected(rows, rows.id) == ("id", "id")
    assert read_selected(rows, F.col("both.one")) == ("both.`one`", None)
    assert read_selected(rows, F.col("id").alias("other")) == ("id", None)
    assert read_selected(rows, F.concat("name", F.lit("it's"))) == ("concat(name, 'it\\'s')", None)
    assert read_selected(rows, F.col("*")) is None
    assert read_selected(rows, F.max("id")) is None
    assert read_selected(rows, F.explode(F.array("id"))) is None
    assert read_selected(rows, F.sum("id").over(Window.partitionBy("name"))) is None


def test_equal_columns_are_told_from_others_of_the_same_text(spark: Any) -> None:
    rows = spark.range(1).selectExpr("id", "struct(1 as id) as `both`")
    assert are_equal(rows, F.col("id") + 1, F.expr("id + 1"))
    assert not are_equal(rows, F.col("id"), F.col("both.id"))
    one, other = (F.udf(f, "long") for f in (lambda x: x + 1, lambda x: x + 2))
    assert not are_equal(rows, one("id"), other("id"))


def test_a_column_is_known_by_what_it_stands_for(spark: Any) -> None:
    rows = spark.range(1).selectExpr("id", "struct(1 as one) as both")
    assert [plain_column(rows, column) for column in (F.col("ID"), rows.id, F.col("both"))] == ["id", "id", "both"]
    for other in (F.col("id").alias("id"), F.col("both.one"), F.col("id") + 1, F.lit(1)):
        assert plain_column(rows, other) is None


def test_grouped_rows_are_read_with_the_names_of_their_key(spark: Any) -> None:
    rows = spark.range(3).selectExpr("id", "id % 2 as `odd one`", "'x' as word")
    found, key = read_grouped(rows.groupBy("odd one", F.col("word")))
    assert found is rows
    assert key == ("odd one", "word")
