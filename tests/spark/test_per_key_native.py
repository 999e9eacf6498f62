"""The same functions on the same rows under Spark alone and under unskew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType

import unskew
from unskew.errors import ColumnError
from unskew.hashing import hash_keys
from unskew.routing.table import RoutingTable
from unskew.runtime.wire import STATE, unpack
from unskew.spark.initial_state import beginning_with, initial_parcels
from unskew.spark.per_key import LeanFunction, Rows
from unskew.state import KeyedState, MemoryStore
from unskew.testing import write_batches
from unskew.versions.arrow import from_arrow_schema

pytestmark = pytest.mark.spark

Batches = dict[int, list[tuple[Any, ...]]]


def stream(spark: SparkSession, folder: Path, tables: list[pa.Table]) -> DataFrame:
    """Write one file per batch, and return the stream of them."""
    files = spark.readStream.schema(from_arrow_schema(tables[0].schema)).option("maxFilesPerTrigger", 1)
    return files.parquet(write_batches(folder, tables))


def run(stream: Any, checkpoint: Path, mode: str = "update") -> tuple[Batches, Any]:
    """Run to the end of the input; return the rows of every batch that had any, sorted, and the query."""
    batches: Batches = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted((tuple(row) for row in rows.collect()), key=repr)

    writer = stream.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return {batch: rows for batch, rows in batches.items() if rows}, query


@pytest.fixture(scope="module")
def new_york(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session in another time zone than the machine's, on a day when clocks change."""
    names = ("spark.sql.session.timeZone", "spark.sql.shuffle.partitions")
    before = {name: spark.conf.get(name) for name in names}
    for name, value in zip(names, ("America/New_York", "2"), strict=True):
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


SHOWN = "user string, shard int, calls long, rows long, seen timestamp, what string, number int"
KEPT = "calls long, rows long, seen timestamp, best struct<price: double, note: string>"


def odd_rows(seed: int) -> pa.Table:
    """Return rows of many types with nulls everywhere."""
    rng = np.random.default_rng(seed)
    n = 60

    def some(values: list[Any], share: float = 0.8) -> list[Any]:
        return [value if there else None for value, there in zip(values, rng.random(n) < share, strict=True)]

    day = np.datetime64("2024-03-10T05:30:00", "us")
    return pa.table(
        {
            "user": pa.array(some(rng.choice(["ada", "bob", "cy"], n).tolist())),
            "shard": pa.array(some(rng.integers(0, 3, n).tolist()), pa.int32()),
            "amount": pa.array(some(rng.integers(0, 100, n).tolist()), pa.int32()),
            "price": pa.array(some(rng.random(n).tolist(), 0.9)),
            "flag": pa.array(some((rng.random(n) < 0.5).tolist())),
            "at": pa.array(day + rng.integers(0, 200, n).astype("timedelta64[m]")).cast(pa.timestamp("us", "UTC")),
            "day": pa.array(some(rng.integers(0, 9, n).tolist()), pa.int32()).cast(pa.date32()),
            "tags": pa.array([[None if tag == 2 else int(tag) for tag in rng.integers(0, 3, 2)] for _ in range(n)]),
            "spot": pa.array(some([{"x": int(x), "y": "s"} for x in rng.integers(0, 9, n)], 0.7)),
        }
    )


def describe(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Tell everything that a function can see; sometimes remove state, return nothing, or return several frames."""
    calls, rows, seen, best = state.get if state.exists else (0, 0, None, None)
    what = [repr(key), repr([type(each).__name__ for each in key]), repr(best)]
    for frame in frames:
        what += [repr(frame.dtypes.to_dict()), repr(frame.to_dict("list")), repr(frame.index)]
        rows += len(frame)
        latest = frame["at"].max().to_pydatetime()
        seen = latest if seen is None else max(seen, latest)
        best = (float(frame["price"].max()), key[0])
    calls += 1
    if calls == 2 and key[0] == "ada":
        state.remove()
    else:
        state.update((calls, rows, seen, best))
    if key[0] == "cy" and calls == 1:
        return
    shard = None if np.isnan(key[1]) else int(key[1])
    for number in range(2 if key[0] == "bob" else 1):
        yield pd.DataFrame(
            {
                "number": [number] if shard is None else [float(number)],
                "user": [key[0]],
                "shard": [shard],
                "calls": [calls],
                "rows": [rows],
                "seen": [seen],
                "what": ["\n".join(what)],
            }
        )
    yield pd.DataFrame()


def test_the_same_rows_as_spark_alone_then_continue_from_its_state(new_york: SparkSession, tmp_path: Path) -> None:
    batches = [odd_rows(seed) for seed in range(3)]
    events = stream(new_york, tmp_path / "rows", batches)
    keys, arguments = ["user", "shard"], (describe, SHOWN, KEPT, "update", "NoTimeout")
    native_stream = events.groupBy(*keys).applyInPandasWithState(*arguments)
    native, _ = run(native_stream, tmp_path / "native")
    balanced = unskew.balance(events, keys, channels=2, planner="mixed", tolerance=0.0, min_gain=0.0)
    ours, query = run(balanced.applyInPandasWithState(*arguments), tmp_path / "ours")
    assert len(native) == 3 and sum(map(len, native.values())) > 30
    assert ours == native
    assert query.moves

    write_batches(tmp_path / "rows", [odd_rows(4)], first=3)
    later = stream(new_york, tmp_path / "later", [odd_rows(4)])
    before = unskew.state_of(new_york, str(tmp_path / "native"))
    continued, _ = run(
        unskew.balance(later, keys, channels=2).applyInPandasWithState(*arguments, initial_state=before),
        tmp_path / "continued",
    )
    native, _ = run(native_stream, tmp_path / "native")
    assert continued[0] == native[3]


def sessions(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Count rows until a user has been silent for 20 seconds; c times out twice before it is forgotten, d for ever."""
    rows = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        told = "timeout, " + repr([(type(frame).__name__, frame.shape, [*frame.columns]) for frame in frames])
        if key[0] not in "cd" or rows > 100:
            state.remove()
        elif key[0] == "c":
            state.update((rows + 100,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1)
    else:
        told = "rows"
        for frame in frames:
            rows += len(frame)
            latest = int(frame["at"].max().tz_localize("America/New_York").timestamp() * 1000)
        state.update((rows,))
        state.setTimeoutTimestamp(max(latest, state.getCurrentWatermarkMs()) + 20_000)
    yield pd.DataFrame({"user": [key[0]], "rows": [rows], "told": [told], "watermark": [state.getCurrentWatermarkMs()]})


@pytest.mark.slow
def test_timeouts_and_late_rows_in_event_time(new_york: SparkSession, tmp_path: Path) -> None:
    batches = [
        [("a", 10), ("b", 12), ("c", 14), ("a", 15)],
        [("b", 40), ("d", 41), ("a", 1)],  # a's row counts: rows are judged by the watermark of the batch before
        [("d", 60), ("b", 3), ("e", 50)],  # b's row is late
        [("f", 200)],
        [("f", 300)],
    ]
    tables = [
        pa.table({"user": [user for user, _ in batch], "at": pa.array([s * 1_000_000 for _, s in batch])})
        for batch in batches
    ]
    schema = pa.schema({"user": pa.string(), "at": pa.timestamp("us", "UTC")})
    events = stream(new_york, tmp_path / "rows", [table.cast(schema) for table in tables])
    events = events.withWatermark("at", "10 seconds")
    output = "user string, rows long, told string, watermark long"
    arguments = (sessions, output, "rows long", "append", "EventTimeTimeout")

    native, _ = run(events.groupBy("user").applyInPandasWithState(*arguments), tmp_path / "native", "append")
    balanced = unskew.balance(events, "user", channels=2)
    ours, _ = run(balanced.applyInPandasWithState(*arguments), tmp_path / "ours", "append")

    assert {row[0] for rows in native.values() for row in rows if "timeout" in row[2]} == {*"abcde"}
    assert ours == native


def test_a_lean_function_and_one_that_raises(spark: SparkSession, tmp_path: Path) -> None:
    def total(key: tuple[Any, ...], rows: Rows, state: tuple[Any, ...] | None) -> Any:
        before = 0 if state is None else state[0]
        result = before + 12 // (int(rows["amount"].sum()) - 5)
        return (result,), (key[0], result)

    tables = [
        pa.table({"user": ["ada", "bob", "ada"], "amount": [1, 2, 2]}),
        pa.table({"user": ["ada"], "amount": [5]}),
    ]
    balanced = unskew.balance(stream(spark, tmp_path / "rows", tables), "user", channels=2)
    batches: Batches = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted(map(tuple, rows.collect()))

    writer = balanced.apply_per_key(total, "user string, n long", "n long").writeStream.trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(keep).start()
    with pytest.raises(StreamingQueryException) as failure:
        query.awaitTermination()
    assert batches == {0: [("ada", -6), ("bob", -4)]}
    text = str(failure.value)
    assert "ZeroDivisionError" in text and "12 // (int(rows" in text and "in the call for key 'ada' of batch 1" in text


def test_state_to_begin_with_is_that_of_the_start_that_ran(spark: SparkSession, tmp_path: Path) -> None:
    """A first start finds no row and ends; the state that it was given is old when the second one runs."""

    def total(key: tuple[Any, ...], rows: Rows, state: tuple[Any, ...] | None) -> Any:
        n = (0 if state is None else state[0]) + len(rows["user"])
        return (n,), (key[0], n)

    (tmp_path / "rows").mkdir()
    files = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1)
    balanced = unskew.balance(files.parquet(str(tmp_path / "rows")), "user", channels=2)
    results = []
    for known, tables in ((10, []), (20, [pa.table({"user": ["ada"]})])):
        initial = spark.createDataFrame([("ada", (known,))], "user string, state struct<n: long>")
        write_batches(tmp_path / "rows", tables)
        stage = balanced.apply_per_key(total, "user string, n long", "n long", initial_state=initial)
        results.append(run(stage, tmp_path / "checkpoint")[0])
    assert results == [{}, {0: [("ada", 21)]}]


@pytest.mark.slow
def test_rows_of_1970_are_late_in_the_first_batch_already(spark: SparkSession, tmp_path: Path) -> None:
    def count(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        yield pd.DataFrame({"user": [key[0]], "rows": [sum(map(len, frames))]})

    at = pa.array([0, 1_000_000, -5_000_000, 0], pa.timestamp("us", "UTC"))
    table = pa.table({"user": ["ada", "ada", "bob", "cy"], "at": at})
    events = stream(spark, tmp_path / "rows", [table, table]).withWatermark("at", "10 seconds")
    arguments = (count, "user string, rows long", "rows long", "append", "EventTimeTimeout")
    native, _ = run(events.groupBy("user").applyInPandasWithState(*arguments), tmp_path / "native", "append")
    stage = unskew.balance(events, "user", channels=2).applyInPandasWithState(*arguments)
    assert run(stage, tmp_path / "ours", "append")[0] == native


@pytest.mark.slow
def test_state_to_begin_with_may_be_any_table(spark: SparkSession) -> None:
    kept, output = StructType().add("n", LongType()), StructType().add("n", LongType())
    operator = LeanFunction(lambda key, rows, state: (state, None), output, kept, "ProcessingTimeTimeout")
    operator = operator.bind(pa.schema({"user": pa.string(), "shard": pa.int64()}), ("user", "shard"))
    users = [("ada", 1, (5,), 70), ("bob", 1, None, 80), (None, 2, (6,), None), ("cy", 3, None, None)]
    initial = spark.createDataFrame(users, "user string, shard long, state struct<n: long>, timeout_ms long")
    table = RoutingTable.initial(2, 16)
    work = SimpleNamespace(route=SimpleNamespace(table=table, task_of=np.zeros(2, np.int32)))
    parcels = initial_parcels(initial, operator, work).toArrow()
    assert set(parcels["kind"].to_pylist()) == {STATE}
    found = {}
    for channel, data in zip(parcels["channel"].to_pylist(), parcels["blob"].to_pylist(), strict=True):
        with KeyedState.open(
            MemoryStore(), operator.key_schema, operator.value_schema, slots=16, deadline=operator.deadline
        ) as state:
            state.install(unpack(data))
            for rows in state.scan():
                assert (table.lookup(rows.column("hash").to_numpy()) == channel).all()
                assert (hash_keys(rows, ["key.user", "key.shard"]) == rows.column("hash").to_numpy()).all()
                for row in rows.to_pylist():
                    found[row["key.user"]] = row["value.state"], row["value.timeout_ms"]
    assert found == {"ada": ({"n": 5}, 70), "bob": (None, 80), None: ({"n": 6}, None)}, "nothing is known of cy"

    with pytest.raises(ColumnError, match=r"lacks a column, got 'state'.*user, shard, state"):
        beginning_with(initial.drop("state"), operator)
    with pytest.raises(PythonException, match="does not fit the state's type"):
        wrong = initial.selectExpr("user", "shard", "named_struct('n', 'five') as state")
        initial_parcels(wrong, operator, work).toArrow()
