"""The contract with the text that Spark prints for a plan."""

from __future__ import annotations

from threading import Thread

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.spark import plans
from unskew.spark.plans import has_shuffle, plan_nodes, session_cores, watermark_columns

pytestmark = pytest.mark.spark

ODD_NAME = "t s: timestamp, 3, #5: `x\n\n+- ~EventTimeWatermark 'n"
FORGED = "x\n+- ~Aggregate [a#1]\n:- ~EventTimeWatermark forged#1: timestamp, 10 minutes\n== Analyzed Logical Plan ==\n"


@pytest.fixture
def rate(spark: SparkSession) -> DataFrame:
    return spark.readStream.format("rate").load()


def names(rows: DataFrame) -> list[str]:
    return [node.name for node in plan_nodes(rows)]


def test_nodes_of_a_stream_are_found_from_the_top_down(rate: DataFrame) -> None:
    rows = rate.withWatermark("timestamp", "10 minutes").filter("value > 3").select("value")
    assert names(rows) == ["Project", "Filter", "EventTimeWatermark", "StreamingRelationV2"]


def test_what_keeps_the_order_is_no_shuffle(rate: DataFrame, spark: SparkSession) -> None:
    rows = (
        rate.withWatermark("timestamp", "10 minutes")
        .alias("x")
        .filter("x.value > 3")
        .withColumn("each", sql.explode(sql.array(sql.lit(1), sql.lit(2))))
    )
    rows = rows.mapInArrow(lambda batches: batches, rows.schema).mapInPandas(lambda frames: frames, rows.schema)
    assert not has_shuffle(rows)
    assert not has_shuffle(rows.union(rows))
    rows.createOrReplaceTempView("rows_of_test_plans")
    assert not has_shuffle(spark.table("rows_of_test_plans"))


@pytest.mark.parametrize(
    "shuffled",
    [
        lambda rows: rows.repartition(3),
        lambda rows: rows.dropDuplicates(["value"]),
        lambda rows: rows.groupBy("value").count().filter("count > 1"),
        lambda rows: rows.join(rows.select(sql.col("value").alias("other")), sql.expr("value = other")),
        lambda rows: rows.union(rows.orderBy("value")),
        lambda rows: rows.sample(0.5),
        lambda rows: rows.filter("value in (select id from range(3))"),
    ],
)
def test_what_may_change_the_order_is_a_shuffle(rate: DataFrame, shuffled: object) -> None:
    assert has_shuffle(shuffled(rate))  # type: ignore[operator]


def test_leaves_are_no_shuffle(spark: SparkSession, tmp_path: object) -> None:
    spark.range(3).write.parquet(f"{tmp_path}/rows")
    static = spark.read.parquet(f"{tmp_path}/rows")
    stream = spark.readStream.schema("id long").parquet(f"{tmp_path}/rows")
    for rows in (static, stream, spark.range(3), spark.createDataFrame([(1,)], "a int"), spark.sql("values (1), (2)")):
        assert not has_shuffle(rows), names(rows)


def test_watermarks_of_a_stream_are_found(rate: DataFrame) -> None:
    marked = rate.withWatermark("timestamp", "10 minutes")
    assert watermark_columns(rate) == []
    assert watermark_columns(marked) == ["timestamp"]
    assert watermark_columns(marked.withColumnRenamed("timestamp", "at")) == ["timestamp"]
    assert watermark_columns(marked.select("value")) == ["timestamp"]


def test_watermarks_of_several_streams_are_found(rate: DataFrame) -> None:
    one = rate.withWatermark("timestamp", "10 minutes")
    other = rate.select(sql.col("timestamp").alias("at"), "value").withWatermark("at", "1 hour")
    assert watermark_columns(one.union(other)) == ["timestamp", "at"]


def test_a_watermark_may_be_on_a_window(rate: DataFrame) -> None:
    windows = rate.groupBy(sql.window("timestamp", "5 minutes")).count()
    assert watermark_columns(windows.withWatermark("window", "10 minutes")) == ["window"]


def test_names_of_columns_may_hold_anything(rate: DataFrame) -> None:
    rows = rate.select(sql.col("timestamp").alias(ODD_NAME))
    quoted = "`" + ODD_NAME.replace("`", "``") + "`"
    assert watermark_columns(rows.withWatermark(quoted, "1 hour")) == [ODD_NAME]
    assert not has_shuffle(rows.withWatermark(quoted, "1 hour"))


def test_texts_of_users_are_not_taken_for_nodes(rate: DataFrame) -> None:
    rows = rate.select("value", sql.lit(FORGED).alias("text"), sql.lit(1).alias(FORGED)).filter(sql.lit(FORGED) != "")
    assert names(rows) == ["Filter", "Project", "StreamingRelationV2"]
    assert not has_shuffle(rows)
    assert watermark_columns(rows) == []


def test_plans_with_many_fields_are_read(rate: DataFrame) -> None:
    many = rate.withWatermark("timestamp", "1 hour").select(
        *(sql.lit(i).alias(f"column_{i}") for i in range(300)), "timestamp"
    )
    assert watermark_columns(many) == ["timestamp"]
    assert has_shuffle(many.repartition(2).filter("column_7 > 3"))


@pytest.mark.parametrize("length", [100, 700, 1500])
def test_plans_are_read_whole_where_spark_cuts_them(rate: DataFrame, spark: SparkSession, length: int) -> None:
    rows = rate.withWatermark("timestamp", "1 hour").repartition(3).filter("value > 3")
    before = spark.conf.get(plans.MAX_LENGTH)
    spark.conf.set(plans.MAX_LENGTH, length)
    try:
        assert has_shuffle(rows)
        assert watermark_columns(rows) == ["timestamp"]
        assert spark.conf.get(plans.MAX_LENGTH) == str(length)
    finally:
        spark.conf.set(plans.MAX_LENGTH, str(before))


def test_cores_are_those_of_the_session(spark: SparkSession) -> None:
    assert session_cores(spark) == spark.sparkContext.defaultParallelism == 2


def test_nothing_is_printed_and_other_threads_still_print(rate: DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    class Disturbed:
        def explain(self, extended: bool) -> None:
            other = Thread(target=print, args=("from elsewhere",))
            other.start()
            other.join()
            rate.explain(extended)

    assert "from elsewhere" not in plans._explain(Disturbed())  # type: ignore[arg-type]
    assert capsys.readouterr().out == "from elsewhere\n"
