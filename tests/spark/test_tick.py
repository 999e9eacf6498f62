"""Batches without rows, beside those that Spark makes for its own stateful operators."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.offsets import LocalFiles, find_tick, next_watermark_ms, only_tick_advanced, read_facts
from unskew.spark.tick import TickReader, event_deadline, processing_deadline, with_tick
from unskew.spark.until_quiet import start_with_tick
from unskew.testing import write_batches
from unskew.versions import SPARK

FIRST = datetime(2026, 1, 1, tzinfo=UTC)
POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
SECONDS_TO_WAIT = 60


def table(*minutes: int) -> pa.Table:
    times = [FIRST + timedelta(minutes=each) for each in minutes]
    return pa.table({"k": pa.array(minutes, pa.int64()), "ts": pa.array(times, pa.timestamp("us", "UTC"))})


def stream(spark: SparkSession, folder: Path | str) -> DataFrame:
    rows = spark.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(folder))
    return rows.withWatermark("ts", "1 minute")


def minute(watermark_ms: int) -> float:
    return (watermark_ms / 1000 - FIRST.timestamp()) / 60 if watermark_ms else float("-inf")


class Ticked:
    """A query with a tick that records its batches: number, rows, watermark in minutes."""

    def __init__(self, events: DataFrame, home: Path, mode: str = "event") -> None:
        self.checkpoint, self.place = home / "checkpoint", home / "checkpoint/unskew"
        self.events, self.places, self.mode = events, (str(self.place), str(self.checkpoint)), mode
        self.files = LocalFiles(str(self.checkpoint))
        self.batches: list[tuple[int, int, float]] = []
        self.deadlines: dict[int, int | None] = {}
        self.fail_in: int | None = None

    def run_batch(self, rows: DataFrame, batch_id: int) -> None:
        if batch_id == self.fail_in:
            self.fail_in = None
            raise RuntimeError("as the test wants it")
        facts = read_facts(self.files, batch_id)
        count = rows.count()
        self.batches.append((batch_id, count, minute(facts.watermark_ms)))
        before = read_facts(self.files, batch_id - 1) if batch_id else None
        assert only_tick_advanced(before, facts, find_tick(facts)) == (count == 0)
        if batch_id in self.deadlines:
            self.write_tick(batch_id, self.deadlines[batch_id])

    def write_tick(self, batch_id: int, deadline_ms: int | None) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        (self.place / "tick.new").write_text(json.dumps({"batch_id": batch_id, "deadline_ms": deadline_ms}))
        (self.place / "tick.new").replace(self.place / "tick")

    def start(self, **trigger: Any) -> Any:
        def started(rows: DataFrame) -> Any:
            writer = rows.writeStream.foreachBatch(self.run_batch)
            return writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()

        return start_with_tick(started, self.events, *self.places, self.mode, "availableNow" in trigger)  # type: ignore[arg-type]

    def run(self, **trigger: Any) -> list[tuple[int, int, float]]:
        """Run to the end, and return the batches of this run."""
        self.batches.clear()
        self.start(**trigger).awaitTermination()
        return list(self.batches)

    def wait_for(self, batches: int, query: Any) -> None:
        end = time.monotonic() + SECONDS_TO_WAIT
        while len(self.batches) < batches or next_batch(query):
            assert query.isActive and time.monotonic() < end, (query.exception(), self.batches)
            time.sleep(0.02)


def next_batch(query: Any) -> bool:
    return bool(query.status["isTriggerActive"] and query.status["isDataAvailable"])


class Native:
    """Spark's own windows over the same stream."""

    def __init__(self, events: DataFrame, home: Path) -> None:
        self.checkpoint = home / "native"
        self.rows = events.groupBy(sql.window("ts", "5 minutes")).count()
        self.fail_in: int | None = None

    def run_batch(self, rows: DataFrame, batch_id: int) -> None:
        rows.collect()
        if batch_id == self.fail_in:
            self.fail_in = None
            raise RuntimeError("as the test wants it")

    def run(self, **trigger: Any) -> None:
        writer = self.rows.writeStream.outputMode("append").foreachBatch(self.run_batch)
        writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start().awaitTermination()

    @property
    def watermarks(self) -> list[float]:
        return watermarks(self.checkpoint)


def watermarks(checkpoint: Path) -> list[float]:
    files = LocalFiles(str(checkpoint))
    batches = sorted(int(name) for name in files.names("offsets") if name.isdecimal())
    return [minute(read_facts(files, batch).watermark_ms) for batch in batches]


@pytest.mark.spark
class TestEventTime:
    def test_the_last_rows_are_followed_by_a_batch_without_rows(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5), table(10, 15), table(3, 4)])
        query, native = Ticked(stream(spark, data), tmp_path), Native(stream(spark, data), tmp_path)
        none = float("-inf")
        assert query.run(availableNow=True) == [(0, 2, none), (1, 2, 4), (2, 2, 14)]
        native.run(availableNow=True)
        assert watermarks(query.checkpoint) == native.watermarks
        assert query.run(availableNow=True) == []

        write_batches(data, [table(20, 25)], first=3)
        assert query.run(availableNow=True) == [(3, 1 + 1, 14), (4, 0, 24)]
        native.run(availableNow=True)
        assert watermarks(query.checkpoint) == native.watermarks
        assert next_watermark_ms(query.files, 4) == read_facts(query.files, 4).watermark_ms

    @pytest.mark.slow
    def test_a_batch_that_failed_is_run_again_and_followed(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5), table(10, 15)])
        query, native = Ticked(stream(spark, data), tmp_path), Native(stream(spark, data), tmp_path)
        for each in (query, native):
            each.fail_in = 1
            with pytest.raises(StreamingQueryException):
                each.run(availableNow=True)
        assert query.run(availableNow=True) == [(1, 2, 4), (2, 0, 14)]
        native.run(availableNow=True)
        assert watermarks(query.checkpoint) == native.watermarks

    @pytest.mark.slow
    def test_a_batch_without_rows_that_failed_is_run_again(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query = Ticked(stream(spark, data), tmp_path)
        query.fail_in = 1
        with pytest.raises(StreamingQueryException):
            query.run(availableNow=True)
        assert query.run(availableNow=True) == [(1, 0, 4)]
        assert query.run(availableNow=True) == []

    @pytest.mark.slow
    def test_once_is_one_batch_and_a_new_start_waits_for_rows_as_spark_does(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query, native = Ticked(stream(spark, data), tmp_path), Native(stream(spark, data), tmp_path)
        assert query.run(once=True) == [(0, 2, float("-inf"))]
        assert query.run(once=True) == query.run(availableNow=True) == []
        for trigger in ("once", "once", "availableNow"):
            native.run(**{trigger: True})
        assert watermarks(query.checkpoint) == native.watermarks == [float("-inf")]

        write_batches(data, [table(10)], first=1)
        assert query.run(availableNow=True) == [(1, 1, 4), (2, 0, 9)]
        native.run(availableNow=True)
        assert watermarks(query.checkpoint) == native.watermarks

    def test_a_running_query_has_one_batch_without_rows_and_then_waits(
        self, spark: SparkSession, tmp_path: Path
    ) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5), table(10, 15)])
        query = Ticked(stream(spark, data), tmp_path)
        running = query.start(processingTime="50 milliseconds")
        try:
            query.wait_for(3, running)
            time.sleep(0.5)
            assert query.batches == [(0, 2, float("-inf")), (1, 2, 4), (2, 0, 14)]
            write_batches(data, [table(20)], first=2)
            query.wait_for(5, running)
            time.sleep(0.5)
            assert query.batches[3:] == [(3, 1, 14), (4, 0, 19)]
        finally:
            running.stop()

    def test_no_batch_is_due_where_spark_makes_none(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        spark.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", "false")
        try:
            query = Ticked(stream(spark, data), tmp_path)
            assert [batch for batch, _, _ in query.run(availableNow=True)] == [0]
        finally:
            spark.conf.unset("spark.sql.streaming.noDataMicroBatches.enabled")

    def test_a_stream_without_watermark_has_no_batches_without_rows(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        events = spark.readStream.schema("k long, ts timestamp").parquet(data)
        assert [rows for _, rows, _ in Ticked(events, tmp_path).run(availableNow=True)] == [2]

    @pytest.mark.parametrize("policy", [pytest.param("min", marks=pytest.mark.slow), "max"])
    def test_several_watermarks_follow_the_policy(self, spark: SparkSession, tmp_path: Path, policy: str) -> None:
        left = write_batches(tmp_path / "left", [table(0, 5), table(10, 15), table(40)])
        right = write_batches(tmp_path / "right", [table(2), table(30)])
        spark.conf.set(POLICY, policy)
        try:
            events = stream(spark, left).union(stream(spark, right))
            query, native = Ticked(events, tmp_path), Native(events, tmp_path)
            batches = query.run(availableNow=True)
            native.run(availableNow=True)
        finally:
            spark.conf.unset(POLICY)
        assert [rows for _, rows, _ in batches] == [3, 3, 1, 0]
        assert watermarks(query.checkpoint) == native.watermarks
        assert batches[-1][2] == {"min": 29, "max": 39}[policy]

    @pytest.mark.skipif(SPARK < (4, 3), reason="offsets have the names of their sources since Spark 4.3")
    def test_sources_with_names_are_told_apart(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5), table(10)])
        spark.conf.set("spark.sql.streaming.queryEvolution.enableSourceEvolution", "true")
        try:
            reader = spark.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1).name("zebra")
            query = Ticked(reader.parquet(data).withWatermark("ts", "1 minute"), tmp_path)
            assert [rows for _, rows, _ in query.run(availableNow=True)] == [2, 1, 0]
        finally:
            spark.conf.unset("spark.sql.streaming.queryEvolution.enableSourceEvolution")
        assert [source.partition(":")[0] for source in read_facts(query.files, 2).sources] == ["unskew_tick", "zebra"]

    def test_the_older_form_of_the_checkpoint_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        name = "spark.sql.streaming.stateStore.checkpointFormatVersion"
        before = spark.conf.get(name)
        spark.conf.set(name, "1")
        try:
            query = Ticked(stream(spark, data), tmp_path)
            assert [rows for _, rows, _ in query.run(availableNow=True)] == [2, 0]
        finally:
            spark.conf.set(name, str(before))
        assert (query.checkpoint / "commits/0").read_bytes().startswith(b"v1\n")


@pytest.mark.spark
class TestProcessingTime:
    def test_a_deadline_makes_one_batch_after_its_time(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query = Ticked(stream(spark, data), tmp_path, "processing")
        deadline = int(time.time() * 1000) + 100
        query.deadlines = {0: deadline, 1: None}
        running = query.start(processingTime="50 milliseconds")
        try:
            query.wait_for(2, running)
            time.sleep(0.5)
        finally:
            running.stop()
        assert [rows for _, rows, _ in query.batches] == [2, 0]
        assert read_facts(query.files, 1).time_ms > deadline

    def test_a_deadline_that_nobody_replaces_does_not_fire_again(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query = Ticked(stream(spark, data), tmp_path, "processing")
        query.deadlines = {0: 1}
        assert [rows for _, rows, _ in query.run(availableNow=True)] == [2, 0]
        assert query.run(availableNow=True) == []

    def test_deadlines_that_come_again_and_again_end_with_the_run(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query = Ticked(stream(spark, data), tmp_path, "processing")
        query.deadlines = dict.fromkeys(range(3), int((time.time() + 3600) * 1000))
        assert [rows for _, rows, _ in query.run(availableNow=True)] == [2]
        query.write_tick(0, int(time.time() * 1000) - 1)
        assert query.run(availableNow=True) == [(1, 0, 4)]

    def test_a_file_that_is_not_understood_stops_the_query(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        query = Ticked(stream(spark, data), tmp_path, "processing")
        assert len(query.run(availableNow=True)) == 1
        query.place.mkdir(parents=True)
        (query.place / "tick").write_text("{")
        with pytest.raises(StreamingQueryException, match="the file is not what unskew writes"):
            query.run(availableNow=True)


@pytest.mark.spark
class TestColumns:
    def test_columns_of_every_type_stay_what_they_are(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path / "data", [table(0, 5)])
        events = stream(spark, data).select(
            "k",
            sql.col("ts").alias("a b, `c`"),
            sql.lit(1).alias("k"),
            sql.lit(None).alias("void"),
            sql.struct(sql.lit(1).alias("x"), sql.lit(None).alias("n"), sql.array(sql.lit("a"))).alias("struct"),
            sql.create_map(sql.lit("a"), sql.lit(1.5)).alias("map"),
            sql.lit(1).cast("decimal(38,18)").alias("decimal"),
            sql.expr("timestamp_ntz'2020-01-01'").alias("without_zone"),
            sql.expr("date'2020-01-01'").alias("date"),
            sql.expr("interval '1' year").alias("months"),
            sql.expr("interval '1' day").alias("days"),
            sql.expr("make_interval(1)").alias("interval"),
            sql.expr("parse_json('{}')").alias("variant"),
            sql.lit(b"x").alias("binary"),
            sql.expr("'a' collate UNICODE_CI").alias("collated"),
            sql.lit(2).alias("noted", metadata={"note": "of the user"}),
        )
        query = Ticked(events, tmp_path)
        ticked = with_tick(events, *query.places, "event")
        assert ticked.schema == events.schema
        assert [field.metadata for field in ticked.schema] == [field.metadata for field in events.schema]
        seen = []
        query.run_batch = lambda rows, batch_id: seen.append((rows.count(), rows.schema == events.schema))  # type: ignore[method-assign]
        query.run(availableNow=True)
        assert seen == [(2, True), (0, True)]

    def test_only_streams_have_ticks(self, spark: SparkSession) -> None:
        with pytest.raises(ArgumentError, match="these rows are static"):
            with_tick(spark.range(3), "place", "checkpoint", "event")

    def test_there_are_two_modes(self, spark: SparkSession, tmp_path: Path) -> None:
        data = write_batches(tmp_path, [table(0)])
        with pytest.raises(ArgumentError, match=r"no such mode, got 'both'.*event, processing"):
            with_tick(stream(spark, data), "place", "checkpoint", "both")  # type: ignore[arg-type]


class Remote:
    """Files elsewhere, where every look is counted."""

    def __init__(self, place: Path) -> None:
        self.files, self.looks = LocalFiles(str(place)), 0

    def read_or_none(self, name: str) -> bytes | None:
        self.looks += 1
        return self.files.read_or_none(name)

    def names(self, folder: str) -> list[str]:
        return self.files.names(folder)


class TestReader:
    """The reader alone, with a clock that the test sets."""

    @pytest.fixture
    def home(self, tmp_path: Path) -> Path:
        for folder in ("offsets", "commits"):
            (tmp_path / folder).mkdir()
        return tmp_path

    def batch(self, home: Path, number: int, watermark: int, following: int | None) -> None:
        header = json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 0})
        (home / f"offsets/{number}").write_text(f"v1\n{header}\n-")
        if following is not None:
            (home / f"commits/{number}").write_text(f'v1\n{{"nextBatchWatermarkMs":{following}}}')

    def reader(
        self, files: Any, rule: Callable[..., Any] = event_deadline, clock: Callable[[], float] = time.time
    ) -> TickReader:
        return TickReader(files, partial(rule, files, files), clock)

    def test_a_risen_watermark_is_due_until_its_batch_is_on_its_way(self, home: Path) -> None:
        reader = self.reader(LocalFiles(str(home)))
        assert reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit()) == {"unskew_tick": 0}
        self.batch(home, 0, 0, 5)
        for _ in range(2):  # Spark asks again if it could not write the offsets
            assert reader.latestOffset({"unskew_tick": 3}, reader.getDefaultReadLimit()) == {"unskew_tick": 4}
        self.batch(home, 1, 5, None)
        assert not reader.due()
        self.batch(home, 1, 5, 5)
        assert not reader.due()

    def test_what_was_committed_before_the_start_is_not_due(self, home: Path) -> None:
        self.batch(home, 0, 0, 5)
        assert not self.reader(LocalFiles(str(home))).due()

    def test_a_file_of_spark_that_is_broken_is_an_error(self, home: Path) -> None:
        reader = self.reader(LocalFiles(str(home)))
        self.batch(home, 0, 0, 5)
        (home / "offsets/0").unlink()
        with pytest.raises(CheckpointError, match="offsets/0"):
            reader.due()

    @pytest.mark.parametrize("content", ["{", "[]", "{}", '{"batch_id": 0, "deadline_ms": "soon"}'])
    def test_a_tick_that_is_broken_is_an_error(self, home: Path, content: str) -> None:
        self.batch(home, 0, 0, 5)
        (home / "tick").write_text(content)
        with pytest.raises(CheckpointError, match="tick"):
            self.reader(LocalFiles(str(home)), processing_deadline)

    def test_a_deadline_is_due_after_its_time(self, home: Path) -> None:
        self.batch(home, 0, 0, 0)
        (home / "tick").write_text('{"batch_id": 0, "deadline_ms": 5000}')
        seconds = [4.0]
        reader = self.reader(LocalFiles(str(home)), processing_deadline, lambda: seconds[0])
        due = []
        for seconds[0] in (4.999, 5.0, 5.001):
            due.append(reader.due())
        assert due == [False, False, True]

    def test_deadlines_after_the_start_are_not_for_this_run(self, home: Path) -> None:
        self.batch(home, 0, 0, 0)
        (home / "tick").write_text('{"batch_id": 0, "deadline_ms": 5000}')
        seconds = [4.0]
        reader = self.reader(LocalFiles(str(home)), processing_deadline, lambda: seconds[0])
        reader.prepareForTriggerAvailableNow()
        seconds[0] = 6.0
        assert not reader.due()

    def test_an_idle_stream_seldom_looks_at_files_elsewhere(self, home: Path) -> None:
        remote, seconds = Remote(home), [0.0]
        reader = self.reader(remote, clock=lambda: seconds[0])
        for _ in range(300):  # three seconds
            assert not reader.due()
            seconds[0] += 0.01
        assert remote.looks == 3
        self.batch(home, 0, 0, 5)
        seconds[0] += 0.1  # a batch takes longer than the pause between two questions
        assert reader.due()

    def test_a_run_to_the_end_looks_every_time(self, home: Path) -> None:
        remote = Remote(home)
        reader = self.reader(remote, clock=lambda: 0.0)
        reader.prepareForTriggerAvailableNow()
        for _ in range(5):
            reader.due()
        assert remote.looks == 5
