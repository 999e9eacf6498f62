"""The cached frame that tasks are held to; see `clusters/test_homes.py` for what it does on a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession

import unskew
from unskew.runtime.wire import PARCELS
from unskew.spark.anchors import Anchors, arrived, on_cluster
from unskew.testing import write_batches
from unskew.versions.arrow import from_arrow_schema

PATIENCE_SECONDS = 60


def cached(spark: SparkSession) -> int:
    return spark.sparkContext._jsc.sc().getPersistentRDDs().size()


@pytest.fixture
def anchors(spark: SparkSession) -> Iterator[Anchors]:
    """Give homes that all lie in one place, which a query would not use."""
    anchors = Anchors(idle_seconds=0.0)
    anchors._homes = anchors._make(spark, 3)
    anchors._made_for = 3, 2
    yield anchors
    anchors.release()


def arrivals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    assert context is not None
    parcels = pa.Table.from_batches(batches).select(PARCELS.names)
    at = pa.array([context.partitionId()] * len(parcels), pa.int32())
    yield from parcels.append_column("at", at).to_batches()


@pytest.mark.spark
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_every_parcel_arrives_once_in_the_partition_of_its_task(
    anchors: Anchors, spark: SparkSession, adaptive: str
) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        columns = ("int(id % 3) task", "int(id) channel", "tinyint(2) kind", "int(id) source", "int(id) sequence")
        parcels = spark.range(0, 60, 1, 2).selectExpr(*columns, "binary(string(id)) blob")
        got = (
            anchors.bring(parcels)
            .mapInArrow(partial(arrived, arrivals), from_arrow_schema(PARCELS.append(pa.field("at", pa.int32()))))
            .toArrow()
        )
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)
    assert got["at"].to_pylist() == got["task"].to_pylist()
    assert sorted(got["channel"].to_pylist()) == list(range(60))
    assert sorted(map(int, got["blob"].to_pylist())) == list(range(60))


@pytest.mark.spark
def test_homes_that_nobody_uses_are_released(anchors: Anchors, spark: SparkSession) -> None:
    frame = anchors._frame
    assert frame is not None
    assert frame.storageLevel.useMemory
    anchors.rest()
    patience_ends = time.monotonic() + PATIENCE_SECONDS
    while frame.storageLevel.useMemory:
        assert time.monotonic() < patience_ends


@pytest.mark.spark
def test_where_there_is_one_place_there_are_no_homes(spark: SparkSession) -> None:
    before = cached(spark)
    assert Anchors().homes(spark, channels=2) == ()
    assert cached(spark) == before


@pytest.mark.spark
def test_a_query_on_one_machine_has_no_anchors(spark: SparkSession, tmp_path: Path, monkeypatch) -> None:
    """It tells what its channels found all the same."""
    assert not on_cluster(spark)
    monkeypatch.setattr(Anchors, "homes", None)  # whoever calls it fails
    write_batches(tmp_path / "data", [pa.table({"key": [1, 2, 3, 4]})] * 2)
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    stream = unskew.balance(events, "key", channels=2, min_gain=-1.0).aggregate(n="count").writeStream
    query = stream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).format("noop")
    query = query.start()
    query.awaitTermination()
    assert [figures.homes for figures in query.figures] == [0, 0]
    assert [set(figures.channel_found) for figures in query.figures] == [{"new"}, {"copy"}]
    assert query.loads["found"].to_pylist() == ["copy", "copy"]
