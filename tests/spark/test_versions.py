"""What differs between versions of Spark, on the one that runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from unskew import versions
from unskew.errors import SessionError
from unskew.versions import SPARK, require_spark, spoken
from unskew.versions.arrow import from_arrow_schema, to_arrow_schema
from unskew.versions.hints import takes_iterator
from unskew.versions.shuffle import labels_of, repartition_by_id, spark_hash


def test_what_a_version_lacks_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    require_spark((4, 0), "this")
    monkeypatch.setattr(versions, "SPARK", (4, 1))
    with pytest.raises(SessionError, match=r"a thing needs Spark 4\.2 or newer, got .* Hint: do without"):
        require_spark((4, 2), "a thing", hint="do without")


@pytest.mark.spark
def test_the_session_is_of_the_version_that_is_installed(spark: Any) -> None:
    assert spark.version.startswith(f"{spoken(SPARK)}.")


@pytest.mark.spark
def test_the_hash_is_sparks(spark: Any) -> None:
    numbers = [*range(100), 12_345, 2**31 - 1]
    hashed = spark.createDataFrame([(number,) for number in numbers], "n int").select(F.hash("n")).collect()
    assert [row[0] for row in hashed] == list(map(spark_hash, numbers))


@pytest.mark.spark
@pytest.mark.parametrize("oldest", [False, True])
def test_rows_go_to_the_partition_that_they_name(spark: Any, monkeypatch: pytest.MonkeyPatch, oldest: bool) -> None:
    if oldest:
        monkeypatch.setattr("unskew.versions.shuffle.PARTITIONS_BY_ID", False)
    elif SPARK < (4, 1):
        pytest.skip("there are partitions by number since Spark 4.1")
    rows = spark.range(0, 50, 1, 3).select((F.col("id") % 14).cast("int").alias("task"))
    placed = repartition_by_id(rows, 7, "task").select("task", F.spark_partition_id().alias("partition"))
    seen = {(row.task, row.partition) for row in placed.collect()}
    assert seen == {(task, task % 7) for task in range(14)}
    assert len(set(labels_of(200))) == 200


def test_timestamps_have_the_zone_wherever_they_are() -> None:
    stamp = T.TimestampType()
    nested = T.StructType().add("at", stamp).add("plain", T.TimestampNTZType())
    schema = (
        T.StructType().add("at", stamp).add("list", T.ArrayType(nested)).add("map", T.MapType(T.StringType(), stamp))
    )
    made = to_arrow_schema(schema, timezone="Asia/Tokyo")
    zoned = pa.timestamp("us", "Asia/Tokyo")
    assert made.field("at").type == zoned
    assert made.field("list").type.value_type == pa.struct({"at": zoned, "plain": pa.timestamp("us")})
    assert made.field("map").type.item_type == zoned
    assert from_arrow_schema(made) == schema


@pytest.mark.skipif(SPARK < (4, 1), reason="functions take whole groups")
def test_hints_say_whether_a_function_takes_pieces() -> None:
    def frames(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        return rows

    def batches(key: tuple[Any, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return rows

    def half(rows: Iterator[pd.DataFrame]):  # type: ignore[no-untyped-def]
        return rows

    found = {
        (method, function.__name__)
        for method in ("applyInPandas", "applyInArrow")
        for function in (frames, batches, half, len)
        if takes_iterator(method, function)
    }
    assert found == {("applyInPandas", "frames"), ("applyInArrow", "batches")}
