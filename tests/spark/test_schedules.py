"""What happened to drafts of the runtime on Spark, one test each."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

import unskew
from unskew.errors import CheckpointError
from unskew.runtime.log import RecordLog
from unskew.state.files import Files
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def keys(batch: int, rows: int = 2000) -> np.ndarray:
    return np.random.default_rng(batch).zipf(1.3, rows) % 100


def stream(spark: Any, folder: Path, schema: str = "key long") -> Any:
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def start(stage: Any, sink: Any, checkpoint: Path) -> Any:
    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).foreachBatch(sink)
    return writer.trigger(availableNow=True).start()


class Totals:
    """The last row of every key."""

    def __init__(self) -> None:
        self.rows: dict[Any, Any] = {}
        self.batches: list[int] = []

    def __call__(self, rows: Any, batch_id: int) -> None:
        self.rows.update({row[0]: row[1] for row in rows.collect()})
        self.batches.append(batch_id)


def test_offsets_that_were_removed_after_our_commit_stop_the_query(spark, tmp_path: Path) -> None:
    """Spark would give batch 1 other rows; half of them would be missing, or counted twice."""
    write_batches(tmp_path / "data", [pa.table({"key": keys(i)}) for i in range(2)])
    counted = unskew.balance(stream(spark, tmp_path / "data"), "key", channels=2).aggregate(n="count")
    start(counted, Totals(), tmp_path / "checkpoint").awaitTermination()
    write_batches(tmp_path / "data", [pa.table({"key": keys(2)})], first=2)
    for log in ("offsets", "commits"):
        for name in ("1", ".1.crc"):
            (tmp_path / "checkpoint" / log / name).unlink(missing_ok=True)
    for path in (tmp_path / "checkpoint" / "sources" / "0").glob("*1*"):
        path.unlink()
    with pytest.raises(StreamingQueryException, match=r"batch 1 was run before with other rows.*commit/1.*offsets/1"):
        start(counted, Totals(), tmp_path / "checkpoint").awaitTermination()


def test_a_second_driver_takes_over_and_the_first_one_stops(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": keys(i)}) for i in range(3)])
    counted = unskew.balance(stream(spark, tmp_path / "data"), "key", channels=2).aggregate(n="count")
    log = RecordLog(Files(str(tmp_path / "checkpoint" / "unskew")))

    def sink(rows: Any, batch_id: int) -> None:
        if batch_id == 1:
            log.claim()

    with pytest.raises(StreamingQueryException, match="another start of this query has taken over"):
        start(counted, sink, tmp_path / "checkpoint").awaitTermination()
    assert log.last() == (1, 0), "recorded, not committed"
    totals = Totals()
    start(counted, totals, tmp_path / "checkpoint").awaitTermination()
    assert totals.batches == [1, 2], "batch 1 is shown again as it was recorded"
    log.files.probe()
    assert totals.rows[1] == Counter(np.concatenate([keys(i) for i in range(3)]).tolist())[1]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_duplicates_dropped_upstream_and_a_sink_that_fails_once(spark, tmp_path: Path, adaptive: str) -> None:
    """Spark's own state lies upstream: it has to see every batch once, replays included."""
    ids = [np.arange(i * 700, i * 700 + 1000) for i in range(4)]  # every batch repeats 300 rows of the one before
    write_batches(tmp_path / "data", [pa.table({"id": each, "key": each % 50}) for each in ids])
    distinct = stream(spark, tmp_path / "data", "id long, key long").dropDuplicates(["id"])
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    totals, failed = Totals(), []

    def sink(rows: Any, batch_id: int) -> None:
        totals(rows, batch_id)
        if batch_id == 2 and not failed:
            failed.append(batch_id)
            raise OSError("the database is away")

    try:
        counted = unskew.balance(distinct, "key", channels=3, min_gain=-1.0).aggregate(n="count", total="sum(id)")
        with pytest.raises(StreamingQueryException, match="the database is away"):
            start(counted, sink, tmp_path / "checkpoint").awaitTermination()
        start(counted, sink, tmp_path / "checkpoint").awaitTermination()
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", before)
    everything = np.unique(np.concatenate(ids))
    assert totals.rows == Counter((everything % 50).tolist())
    assert totals.batches[:4] == [0, 1, 2, 2]


def test_a_function_with_randomness_shows_the_same_rows_again(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": keys(i, 200)}) for i in range(2)])
    shown: list[list[Any]] = []

    def draw(key: Any, rows: Any, state: Any) -> Any:
        return (1,), (key[0], float(np.random.default_rng().random()))

    def sink(rows: Any, batch_id: int) -> None:
        shown.append(sorted(rows.collect()))
        if len(shown) == 1:
            raise OSError("once")

    stage = unskew.balance(stream(spark, tmp_path / "data"), "key", channels=2).apply_per_key(
        draw, "key long, x double", "n long"
    )
    with pytest.raises(StreamingQueryException, match="once"):
        start(stage, sink, tmp_path / "checkpoint").awaitTermination()
    start(stage, sink, tmp_path / "checkpoint").awaitTermination()
    assert shown[0] == shown[1] != shown[2]


@pytest.mark.slow
def test_two_watermarks_in_a_union_as_natively(spark, tmp_path: Path) -> None:
    second = 1_000_000
    for name, shift in (("a", 0), ("b", 20)):
        tables = [
            pa.table(
                {
                    "key": keys(batch + shift, 300),
                    "at": pa.array((np.arange(300) % 40 + 30 * batch + shift) * second, pa.timestamp("us", "UTC")),
                }
            )
            for batch in range(4)
        ]
        write_batches(tmp_path / name, tables)
    both = [
        stream(spark, tmp_path / name, "key long, at timestamp").withWatermark("at", f"{delay} seconds")
        for name, delay in (("a", 5), ("b", 15))
    ]
    events = both[0].union(both[1])

    def collected(stage: Any, checkpoint: Path) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = {}

        def sink(rows: Any, batch_id: int) -> None:
            found[batch_id] = sorted((r.key, r.window.start, r.n) for r in rows.collect())

        start(stage, sink, checkpoint).awaitTermination()
        return {batch: rows for batch, rows in found.items() if rows}

    native = events.groupBy("key", F.window("at", "10 seconds")).agg(F.count("*").alias("n"))
    ours = unskew.balance(events, "key", channels=3).window("10 seconds").aggregate(n="count")
    assert collected(ours, tmp_path / "ours") == collected(native, tmp_path / "native")


def test_a_start_that_is_refused_writes_nothing(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": keys(0)})])
    events = stream(spark, tmp_path / "data")
    native = events.groupBy("key").count().writeStream.outputMode("update").format("noop")
    native.option("checkpointLocation", str(tmp_path / "native")).trigger(availableNow=True).start().awaitTermination()
    before = sorted(str(path) for path in (tmp_path / "native").rglob("*"))
    counted = unskew.balance(events, "key").aggregate(n="count")
    with pytest.raises(CheckpointError, match="belongs to a query of Spark alone"):
        start(counted, Totals(), tmp_path / "native")
    assert sorted(str(path) for path in (tmp_path / "native").rglob("*")) == before
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CheckpointError, match="the checkpoint is a file"):
        start(counted, Totals(), tmp_path / "file")
    (tmp_path / "first" / "unskew" / "decisions").mkdir(parents=True)
    (tmp_path / "first" / "unskew" / "decisions" / "0.0").touch()
    with pytest.raises(CheckpointError, match="older unskew"):
        start(counted, Totals(), tmp_path / "first")


def test_only_the_columns_that_are_needed_are_read(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": keys(0), "wide": ["x" * 100] * 2000})])
    stage = unskew.balance(stream(spark, tmp_path / "data", "key long, wide string"), "key").aggregate(n="count")
    assert stage.events.columns == ["key"]


def test_state_can_be_read_while_the_query_runs_and_after_it_failed(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": keys(i)}) for i in range(3)])
    counted = unskew.balance(stream(spark, tmp_path / "data"), "key", channels=2).aggregate(n="count")
    seen = []

    def sink(rows: Any, batch_id: int) -> None:
        if batch_id == 2:
            seen.append({row.key: row.n for row in unskew.read_state(spark, str(tmp_path / "checkpoint")).collect()})
            raise OSError("gone")

    with pytest.raises(StreamingQueryException, match="gone"):
        start(counted, sink, tmp_path / "checkpoint").awaitTermination()
    after = {row.key: row.n for row in unskew.read_state(spark, str(tmp_path / "checkpoint")).collect()}
    assert seen == [after] == [Counter(np.concatenate([keys(0), keys(1)]).tolist())]


@pytest.mark.slow
def test_rows_that_sparks_state_upstream_gives_without_new_rows_are_not_lost(spark, tmp_path: Path) -> None:
    """An aggregate in append mode upstream gives its windows when time passes, in batches without new rows."""
    at = [(np.arange(50) % 10 + 10 * batch) * 1_000_000 for batch in range(4)]
    tables = [pa.table({"key": keys(i, 50), "at": pa.array(at[i], pa.timestamp("us", "UTC"))}) for i in range(4)]
    write_batches(tmp_path / "data", tables)
    events = stream(spark, tmp_path / "data", "key long, at timestamp").withWatermark("at", "2 seconds")
    counted = events.groupBy("key", F.window("at", "5 seconds")).count().select("key", "window.start", "count")
    stage = unskew.balance(counted.withColumnRenamed("start", "at"), "key", channels=2).apply_per_key(
        lambda key, rows, state: (((state[0] if state else 0) + int(rows["count"].sum()),), None, None),
        "n long",
        "n long",
        timeout="ProcessingTimeTimeout",
    )
    start(stage, lambda rows, batch_id: None, tmp_path / "checkpoint").awaitTermination()
    seen = []
    native = counted.writeStream.outputMode("append").trigger(availableNow=True)
    native = native.option("checkpointLocation", str(tmp_path / "native"))
    native.foreachBatch(lambda rows, batch_id: seen.extend(rows.collect())).start().awaitTermination()
    truth: Counter[int] = Counter()
    for row in seen:
        truth[row.key] += row["count"]
    held = {row.key: row.state.n for row in unskew.read_state(spark, str(tmp_path / "checkpoint")).collect()}
    assert held == truth


def test_initial_state_of_another_integer_type_is_found_and_nulls_may_stand_anywhere(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"the key": keys(0, 50)})])
    known = spark.createDataFrame([(int(key), (100,)) for key in range(100)], "`the key` int, state struct<n: long>")
    stage = unskew.balance(stream(spark, tmp_path / "data", "`the key` long"), "the key", channels=2).apply_per_key(
        lambda key, rows, state: ((state[0] + len(rows),), (key[0], state[0] + len(rows), None)),
        StructType.fromDDL("key long, n long, nothing long not null"),
        "n long",
        initial_state=known,
    )
    totals = Totals()
    start(stage, totals, tmp_path / "checkpoint").awaitTermination()
    assert totals.rows == {key: 100 + n for key, n in Counter(keys(0, 50).tolist()).items()}
    assert unskew.read_state(spark, str(tmp_path / "checkpoint")).count() == 100


def test_the_watermark_is_told_under_timeouts_by_the_clock_too(spark, tmp_path: Path) -> None:
    at = pa.array([5_000_000, 90_000_000], pa.timestamp("us", "UTC"))
    write_batches(tmp_path / "data", [pa.table({"key": [1, 1], "at": at})] * 2)
    events = stream(spark, tmp_path / "data", "key long, at timestamp").withWatermark("at", "10 seconds")

    def tell(key: Any, frames: Any, state: Any) -> Any:
        yield pd.DataFrame({"key": [key[0]], "ms": [state.getCurrentWatermarkMs()]})

    arguments = (tell, "key long, ms long", "n long", "update", "ProcessingTimeTimeout")
    told = []
    stage = unskew.balance(events, "key", channels=2).applyInPandasWithState(*arguments)
    start(
        stage, lambda rows, batch_id: told.extend(row.ms for row in rows.collect()), tmp_path / "ours"
    ).awaitTermination()
    assert told == [0, 80_000]
