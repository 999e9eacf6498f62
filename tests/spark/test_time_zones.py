"""A query that goes on where another time zone is set, beside Spark."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
START = datetime(2024, 3, 30, 22, tzinfo=UTC)


@pytest.fixture
def zones(spark: SparkSession) -> Iterator[SparkSession]:
    before = spark.conf.get(ZONE)
    yield spark
    spark.conf.set(ZONE, str(before))


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    instants = [[START + timedelta(hours=int(h)) for h in rng.integers(0, limit, 60)] for limit in (6, 1000)]
    kind = pa.timestamp("us", "UTC")
    return pa.table({"hour": pa.array(instants[0], kind), "at": pa.array(instants[1], kind)})


@pytest.mark.slow
def test_the_zone_is_no_part_of_the_state(zones: SparkSession, tmp_path: Path) -> None:
    """The first run is under Etc/UTC, the second in Berlin, where the clock is put forward among these hours."""
    seen: dict[Any, tuple[Any, ...]] = {}

    def shown(frame: DataFrame) -> dict[Any, tuple[Any, ...]]:
        columns = [sql.col(name).cast("string").alias(f"{name}_shown") for name in ("hour", "last")]
        return {row.hour: tuple(row) for row in frame.select("*", *columns).collect()}

    def keep(frame: DataFrame, batch_id: int) -> None:
        seen.update(shown(frame))

    for run, zone in enumerate(("Etc/UTC", "Europe/Berlin", "UTC")):
        zones.conf.set(ZONE, zone)
        write_batches(tmp_path / "data", [rows(run)], first=run)
        reader = zones.readStream.schema("hour timestamp, at timestamp").option("maxFilesPerTrigger", 1)
        events = reader.parquet(str(tmp_path / "data"))
        stage = unskew.balance(events, "hour", channels=2).aggregate(n="count", last="max(at)", top="top(at, 2)")
        writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(keep)
        writer.trigger(availableNow=True).start().awaitTermination()
        native = zones.read.parquet(str(tmp_path / "data")).groupBy("hour")
        top = sql.expr("slice(sort_array(collect_list(at), false), 1, 2)")
        expected = native.agg(sql.count("*").alias("n"), sql.max("at").alias("last"), top.alias("top"))
        assert seen == shown(expected), zone
        ours, theirs = ([field.dataType for field in schema][:3] for schema in (stage.output_schema, expected.schema))
        assert ours == theirs
