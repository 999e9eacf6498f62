"""From a query of Spark alone to a balanced one, and back: every batch as if the first query had gone on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import unskew
from unskew.errors import CheckpointError, ColumnError
from unskew.testing import write_batches
from unskew.versions.arrow import from_arrow_schema

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import continued
from continued import Continued

import native_jobs
from native_jobs.case import EVENTS, Case, events
from native_jobs.every_method import CASES

pytestmark = pytest.mark.spark

for module in (native_jobs, continued, sys.modules[__name__]):
    cloudpickle.register_pickle_by_value(module)  # Spark's workers do not know these folders

ZONE = "America/New_York"
AGGREGATION_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
Batches = list[list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Job:
    """The same work natively and balanced: `run` takes what ``groupBy`` or ``balance`` gives."""

    run: Callable[[Any], Any]
    mode: str = "update"
    keys: Callable[[], tuple[Any, ...]] = lambda: ("user",)
    watermark: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


def stream(spark: SparkSession, folder: Path, watermark: str | None) -> DataFrame:
    files = spark.readStream.schema(from_arrow_schema(EVENTS)).option("maxFilesPerTrigger", 1).parquet(str(folder))
    return files if watermark is None else files.withWatermark("at", watermark)


def run(rows: Any, checkpoint: Path, mode: str, most: int = 1_000) -> Batches:
    """Run to the end of the input, or stop after so many batches; return the rows of those that had any, sorted."""
    batches: dict[int, list[tuple[Any, ...]]] = {}

    def keep(some: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted((tuple(row) for row in some.collect()), key=repr)

    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    for left in reversed(range(10)):
        query = writer.trigger(availableNow=True).start()
        try:
            while not query.awaitTermination(1):
                if len(batches) >= most:
                    query.stop()
            break
        except StreamingQueryException as error:  # Spark gives its own worker ten seconds to start, on any machine
            if not left or "failed to connect back" not in str(error):
                raise
    return [each for _, each in sorted(batches.items()) if each]


def aggregates(grouped: Any) -> Any:
    return grouped.agg(
        F.count("*"),
        F.count("what"),
        F.sum("amount").alias("total"),
        F.sum("amount").alias("again"),  # Spark keeps one sum for both
        F.avg("amount"),
        F.min("what"),
        F.max("at").alias("latest"),
        F.var_pop("amount"),
        F.first("what"),
        F.last("what", True),
        F.max_by("what", F.col("at")),
        F.approx_count_distinct("amount"),
        F.sum("price"),
        F.avg("price").alias("mean_price"),
        F.sum("wide"),
        F.avg("wide").alias("mean_wide"),
        F.sum("never"),
        F.avg("never").alias("mean_never"),
        F.avg("x").alias("mean_x"),
    )


def few(grouped: Any) -> Any:
    return grouped.agg(F.count("*").alias("n"), F.sum("amount").alias("total"), F.max("what"))


AGGREGATE_JOBS = {
    "aggregates": Job(aggregates),
    "aggregates in complete mode": Job(few, "complete"),
    "aggregates in the first form of the state": Job(
        few, keys=lambda: ("user", "what"), settings={AGGREGATION_FORMAT: "1"}
    ),
    "tumbling windows": Job(few, "append", lambda: (F.window("at", "1 minute"), "user"), "20 seconds"),
    "sliding windows": Job(few, "update", lambda: ("user", F.window("at", "1 minute", "20 seconds")), "20 seconds"),
    "sessions": Job(few, "append", lambda: ("user", F.session_window("at", "10 seconds")), "20 seconds"),
}


def rounded(batches: Batches) -> list[list[list[Any]]]:
    """Round the last digits of floats, which depend on the order of rows in variances."""
    return [
        [[float(f"{value:.12g}") if isinstance(value, float) else value for value in row] for row in batch]
        for batch in batches
    ]


QUICK = ("aggregates",)


def typed(rows: DataFrame) -> DataFrame:
    """Add columns of types that Spark's aggregates treat in ways of their own."""
    amount = F.col("amount")
    return rows.withColumns(
        {
            "price": (amount / 7).cast("decimal(7,2)"),
            "wide": (amount / 7).cast("decimal(20,3)"),
            "never": F.lit(None).cast("decimal(20,3)"),
            "x": amount / 4,
        }
    )


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in AGGREGATE_JOBS]
)
def test_aggregates_go_on(rocksdb: SparkSession, tmp_path: Path, name: str) -> None:
    job = AGGREGATE_JOBS[name]
    for setting, value in job.settings.items():
        rocksdb.conf.set(setting, value)
    tables = events(11, batches=6, rows=40)
    write_batches(tmp_path / "rows", tables[:3])
    native = job.run(typed(stream(rocksdb, tmp_path / "rows", job.watermark)).groupBy(*job.keys()))
    run(native, tmp_path / "native", job.mode)
    before = unskew.state_of(rocksdb, str(tmp_path / "native"))

    write_batches(tmp_path / "later", tables[3:])
    rows = typed(stream(rocksdb, tmp_path / "later", job.watermark))
    stage = job.run(unskew.balance(rows, *job.keys(), channels=3, min_gain=-1.0)).continue_from(before)
    ours = run(stage, tmp_path / "ours", job.mode)
    assert before.count() >= 3

    write_batches(tmp_path / "rows", tables[3:], first=3)
    theirs = run(native, tmp_path / "native", job.mode)
    for setting in job.settings:
        rocksdb.conf.unset(setting)
    assert len(theirs) >= 3
    assert rounded(ours) == rounded(theirs)


def processed(grouped: Any, case: Case, processor: Any, initial: Any = None) -> Any:
    """Run a processor on what ``groupBy`` or ``balance`` gives."""
    method = grouped.transformWithState if case.by_row else grouped.transformWithStateInPandas
    return method(
        statefulProcessor=processor,
        outputStructType=case.output,
        outputMode=case.output_mode,
        timeMode=case.time_mode,
        initialState=initial,
        eventTimeColumnName=case.event_time,
    )


CONTINUED = [
    "running mean",
    "first seen, with expiry",
    "recent, a list",
    "stock, a map",
    "sessions, timers in event time",
    "counts, by row",
    "alarms, by row",
    "odd types",
]
QUICK_ONES = ("stock, a map",)


@pytest.mark.parametrize(
    "name", [name if name in QUICK_ONES else pytest.param(name, marks=pytest.mark.slow) for name in CONTINUED]
)
def test_a_processor_goes_on(rocksdb: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    if name.startswith("sessions"):  # which takes the times that it sees for UTC
        rocksdb.conf.set("spark.sql.session.timeZone", "UTC")
    tables, mode = case.batches(), case.output_mode
    half = len(tables) // 2
    timed = case.time_mode == "ProcessingTime"  # then Spark runs batches without rows until it is stopped
    write_batches(tmp_path / "rows", tables[:half])
    schema = from_arrow_schema(tables[0].schema)

    def read(folder: str) -> DataFrame:
        files = rocksdb.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / folder))
        return files if case.watermark is None else files.withWatermark("at", case.watermark)

    native = processed(read("rows").groupBy("user"), case, case.job())
    run(native, tmp_path / "native", mode, half if timed else 1_000)
    before = unskew.state_of(rocksdb, str(tmp_path / "native"))
    assert 0 < before.count() == before.select("user").distinct().count()

    write_batches(tmp_path / "later", tables[half:])
    stage = processed(unskew.balance(read("later"), "user", channels=3, min_gain=-1.0), case, case.job())
    ours = run(stage.continue_from(before), tmp_path / "ours", mode)

    write_batches(tmp_path / "rows", tables[half:], first=half)
    theirs = run(native, tmp_path / "native", mode, half if timed else 1_000)
    if timed:
        ours, theirs = ours[:half], theirs[:half]
    rocksdb.conf.set("spark.sql.session.timeZone", ZONE)
    assert len(theirs) >= half
    assert ours == theirs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["running mean", "recent, a list", "stock, a map", "counts, by row"])
def test_there_and_back_again(rocksdb: SparkSession, tmp_path: Path, name: str) -> None:
    """Two batches natively, one balanced, one natively again: as if it had been one native query."""
    case = CASES[name]
    tables, mode = case.batches(), case.output_mode
    schema = from_arrow_schema(tables[0].schema)

    def read(folder: str, *some: Any) -> DataFrame:
        write_batches(tmp_path / folder, list(some))
        return rocksdb.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / folder))

    whole = run(processed(read("all", *tables).groupBy("user"), case, case.job()), tmp_path / "whole", mode)
    first = processed(read("first", *tables[:2]).groupBy("user"), case, case.job())
    rows = run(first, tmp_path / "native", mode)
    before = unskew.state_of(rocksdb, str(tmp_path / "native"))
    stage = processed(unskew.balance(read("third", tables[2]), "user", channels=2), case, case.job())
    rows += run(stage.continue_from(before), tmp_path / "ours", mode)
    known = unskew.read_state(rocksdb, str(tmp_path / "ours"))
    back = processed(read("last", tables[3]).groupBy("user"), case, Continued(case.job()), known.groupBy("user"))
    rows += run(back, tmp_path / "back", mode)
    assert len(whole) == 4
    assert rows == whole


def count_rows(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Count rows, and forget a user who has been silent for 30 seconds of event time."""
    n = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "n": [-n]})
        return
    n += sum(map(len, frames))
    state.update((n,))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 30_000)
    yield pd.DataFrame({"user": [key[0]], "n": [n]})


class CountedRows(StatefulProcessor):
    """Tells what the table of a function's state gives to a processor of Spark's."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.n = handle.getValueState("n", "n long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.n.update((initialState.state.n,))
        self.handle.registerTimer(initialState.timeout_ms)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        (n,) = self.n.get() or (0,)
        self.n.update((n + len(list(rows)),))
        yield Row(user=key[0], n=self.n.get()[0], timers=[*self.handle.listTimers()])


@pytest.mark.slow
def test_a_function_goes_on_and_its_state_serves_a_processor_of_sparks(rocksdb: SparkSession, tmp_path: Path) -> None:
    tables = events(12, batches=6)
    arguments = (count_rows, "user string, n long", "n long", "update", "EventTimeTimeout")
    write_batches(tmp_path / "rows", tables[:3])
    native = stream(rocksdb, tmp_path / "rows", "20 seconds").groupBy("user").applyInPandasWithState(*arguments)
    run(native, tmp_path / "native", "update")
    before = unskew.state_of(rocksdb, str(tmp_path / "native"))
    write_batches(tmp_path / "later", tables[3:])
    balanced = unskew.balance(stream(rocksdb, tmp_path / "later", "20 seconds"), "user", channels=2)
    ours = run(balanced.applyInPandasWithState(*arguments).continue_from(before), tmp_path / "ours", "update")
    write_batches(tmp_path / "rows", tables[3:], first=3)
    theirs = run(native, tmp_path / "native", "update")
    assert any(row[1] < 0 for batch in theirs for row in batch)
    assert ours == theirs

    known = unskew.read_state(rocksdb, str(tmp_path / "ours"))
    held = {row.user: row for row in known.collect()}
    write_batches(tmp_path / "last", tables[:1])
    back = (
        stream(rocksdb, tmp_path / "last", "20 seconds")
        .groupBy("user")
        .transformWithState(
            statefulProcessor=CountedRows(),
            outputStructType="user string, n long, timers array<long>",
            outputMode="append",
            timeMode="EventTime",
            initialState=known.groupBy("user"),
        )
    )
    (told, *_) = run(back, tmp_path / "back", "append")
    assert told and {user for user, *_ in told} & held.keys()
    for user, n, timers in told:
        rows = tables[0]["user"].to_pylist().count(user)
        assert n == rows + (held[user].state.n if user in held else 0)
        assert timers == ([held[user].timeout_ms] if user in held else [])


def test_what_cannot_be_carried_over_is_refused(rocksdb: SparkSession, tmp_path: Path) -> None:
    write_batches(tmp_path / "rows", events(1, batches=1))
    rows = stream(rocksdb, tmp_path / "rows", "1 minute")
    path = tmp_path / "native"
    run(rows.groupBy("user").agg(F.sum("amount"), F.max("what")), path, "update")
    known = unskew.state_of(rocksdb, str(path))
    balanced = unskew.balance(rows, "user")
    with pytest.raises(ColumnError, match=r"not the aggregates of the native query.*max string, sum int64"):
        balanced.agg(F.max("what"), F.sum("amount")).continue_from(known)
    with pytest.raises(ColumnError, match="cannot be taken over, got 'kinds'"):
        balanced.aggregate(total="sum(amount)", kinds="count_distinct(what)").continue_from(known)
    with pytest.raises(ColumnError, match="lacks a column, got 'window'"):
        unskew.balance(rows, "user", F.window("at", "1 minute")).agg(F.sum("amount")).continue_from(known)
    with pytest.raises(ColumnError, match="lacks a column, got 'what'"):
        unskew.balance(rows, "what").agg(F.sum("amount")).continue_from(known)
    with pytest.raises(ColumnError, match=r"no such state, so it would be lost, got 'buffers'"):
        processed(balanced, CASES["running count"], CASES["running count"].job()).continue_from(known)
    with pytest.raises(CheckpointError, match="choose another operator_id: 0 is stateStoreSave"):
        unskew.state_of(rocksdb, str(path), operator_id=1)
    run(balanced.agg(F.sum("amount")), tmp_path / "ours", "update")
    with pytest.raises(CheckpointError, match=r"of a balanced query.*unskew\.read_state"):
        unskew.state_of(rocksdb, str(tmp_path / "ours"))
    with pytest.raises(CheckpointError, match="no batch of a query is committed here"):
        unskew.state_of(rocksdb, str(tmp_path / "nowhere"))
