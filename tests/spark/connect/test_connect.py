"""Balanced queries on Spark Connect, batch by batch beside Spark's own on the same session and the same files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import unskew
from unskew.errors import ArgumentError
from unskew.testing import write_batches

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCHEMA = "user string, amount long, ts timestamp"
Batches = dict[int, list[str]]


def drawn(batches: int = 4, rows: int = 300) -> list[pa.Table]:
    """Zipf keys that drift, null keys and values, times out of order and too late."""
    rng, tables = np.random.default_rng(8), []
    for batch in range(batches):
        user = [None if n == 3 else f"u{(int(n) + 5 * batch) % 30}" for n in rng.zipf(1.3, rows)]
        second = 10_000 + 60 * batch + rng.integers(-60, 60, rows) - np.where(rng.random(rows) < 0.05, 500, 0)
        columns = {
            "user": pa.array(user, pa.string()),
            "amount": pa.array(rng.integers(-50, 50, rows), mask=rng.random(rows) < 0.1),
            "ts": pa.array(second * 1_000_000, pa.timestamp("us", "UTC")),
        }
        tables.append(pa.table(columns))
    return tables


@pytest.fixture
def events(remote: Any, tmp_path: Path) -> Any:
    write_batches(tmp_path / "data", drawn())
    return remote.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))


def keep(folder: str, rows: Any, batch_id: int) -> None:
    """Be a function of the user's for ``foreachBatch``; runs in a process beside the server."""
    rows.write.mode("overwrite").parquet(f"{folder}/{batch_id}")


def run(rows: Any, home: Path, mode: str = "update") -> tuple[Batches, Any]:
    """Run a query over all files; return the rows of each batch that has some."""
    home.mkdir(exist_ok=True)
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(home / "checkpoint"))
    query = writer.trigger(availableNow=True).foreachBatch(partial(keep, str(home / "out"))).start()
    query.awaitTermination()
    found = {int(path.name): pq.read_table(path).to_pylist() for path in (home / "out").iterdir()}
    return {batch: sorted(map(repr, rows)) for batch, rows in sorted(found.items()) if rows}, query


def count_rows(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count a key's rows; forget keys that time out."""
    seen = state.get[0] if state.exists else 0
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "seen": [-seen]})
        return
    seen += sum(len(frame) for frame in frames)
    state.update((seen,))
    state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 60_000)
    yield pd.DataFrame({"user": [key[0]], "seen": [seen]})


def grouped_functions(rows: Any) -> Any:
    return rows.applyInPandasWithState(count_rows, "user string, seen long", "seen long", "update", "EventTimeTimeout")


def aggregates(rows: Any) -> Any:
    return rows.agg(F.sum("amount").alias("total"), F.count("*"), F.max(F.col("amount")).alias("most"))


JOBS: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], str]] = {
    "function with time-outs": (grouped_functions, ("user",), "update"),
    "aggregates": (aggregates, ("user",), "update"),
    "aggregates in complete mode": (aggregates, ("user",), "complete"),
    "windows": (aggregates, ("user", ("window", "2 minutes")), "append"),
    "sessions": (aggregates, ("user", ("session_window", "10 seconds")), "append"),
}


@pytest.mark.parametrize("name", JOBS)
def test_every_batch_is_sparks(events: Any, tmp_path: Path, name: str) -> None:
    job, by, mode = JOBS[name]
    stream = events.withWatermark("ts", "30 seconds")
    keys = [each if isinstance(each, str) else getattr(F, each[0])("ts", each[1]) for each in by]
    ours, query = run(job(unskew.balance(stream, *keys, channels=3, min_gain=-1.0)), tmp_path / "ours", mode)
    native, _ = run(job(stream.groupBy(*keys)), tmp_path / "native", mode)
    assert len(native) > 1
    assert ours == native
    assert query.recentProgress[-1]["unskew"]["channels"] == 3


def test_split_keys_and_another_number_of_channels(events: Any, tmp_path: Path) -> None:
    stage = unskew.balance(events, "user", channels=2, split="auto", plan="own").agg(F.sum("amount"), F.count("*"))
    writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "ours" / "checkpoint"))
    query = (
        writer.trigger(processingTime="1 second").foreachBatch(partial(keep, str(tmp_path / "ours" / "out"))).start()
    )
    query.resize(5)
    query.processAllAvailable()
    assert query.figures[-1].channels == 5
    assert query.routing_table.channels == 5
    assert "running" in repr(query)
    query.stop()
    found = {int(path.name): pq.read_table(path).to_pylist() for path in (tmp_path / "ours" / "out").iterdir()}
    native, _ = run(events.groupBy("user").agg(F.sum("amount"), F.count("*")), tmp_path / "native")
    assert {batch: sorted(map(repr, rows)) for batch, rows in sorted(found.items())} == native


def test_a_query_goes_on_where_it_stopped_and_shows_its_state(remote: Any, tmp_path: Path) -> None:
    tables = drawn()
    data = tmp_path / "data"
    write_batches(data, tables[:2])
    stream = remote.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))
    initial = remote.createDataFrame([("u1", (1000,)), ("nobody", (7,))], "user string, state struct<seen: long>")

    def counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        state.update(((state.get[0] if state.exists else 0) + sum(map(len, frames)),))
        yield pd.DataFrame({"user": [key[0]], "seen": [state.get[0]]})

    for more in (tables[2:], ()):
        balanced = unskew.balance(stream, "user", channels=2)
        stage = balanced.applyInPandasWithState(
            counted, "user string, seen long", "seen long", "update", "NoTimeout", initial_state=initial
        )
        run(stage, tmp_path / "ours")
        write_batches(tmp_path / "more", list(more) or tables[:1])
        for number, path in enumerate(sorted((tmp_path / "more").iterdir())) if more else ():
            path.rename(data / f"z{number}-{path.name}")
    held = {row.user: row.state.seen for row in unskew.read_state(remote, str(tmp_path / "ours/checkpoint")).collect()}
    truth = pa.concat_tables(tables).group_by("user").aggregate([("amount", "count", pa.compute.CountOptions("all"))])
    expected = dict(zip(*(truth.column(name).to_pylist() for name in ("user", "amount_count")), strict=True))
    expected["u1"] += 1000
    assert held == {**expected, "nobody": 7}


def test_sinks_of_files_and_tables(remote: Any, events: Any, tmp_path: Path) -> None:
    stage = unskew.balance(events, "user").aggregate(n="count")
    writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "one")).trigger(availableNow=True)
    writer.format("parquet").start(str(tmp_path / "out")).awaitTermination()
    writer = stage.writeStream.option("checkpointLocation", str(tmp_path / "two")).trigger(availableNow=True)
    writer.toTable("counted").awaitTermination()
    files = remote.read.parquet(str(tmp_path / "out")).drop("batch_id")
    assert sorted(map(tuple, files.collect()), key=str) == sorted(
        map(tuple, remote.table("counted").collect()), key=str
    )
    assert files.groupBy("user").agg(F.max("n").alias("n")).agg(F.sum("n")).first()[0] == 1200


def test_static_rows(remote: Any, tmp_path: Path) -> None:
    rows = remote.range(1000).selectExpr("id % 7 AS key", "id")

    def summed(key: tuple[Any, ...], frame: pd.DataFrame) -> pd.DataFrame:
        return pd.DataFrame({"key": [key[0]], "total": [frame["id"].sum()]})

    ours = unskew.balance(rows, "key", channels=2).applyInPandas(summed, "key long, total long").collect()
    assert sorted(ours) == sorted(rows.groupBy("key").applyInPandas(summed, "key long, total long").collect())


def test_what_a_function_raises_reaches_the_user(events: Any, tmp_path: Path) -> None:
    def fails(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        raise ValueError("no such price")

    stage = unskew.balance(events, "user").applyInPandasWithState(fails, "n long", "n long", "update", "NoTimeout")
    with pytest.raises(PySparkException, match="no such price"):
        run(stage, tmp_path / "ours")


def expressions() -> list[Any]:
    return [
        F.sum(F.col("amount") * 2).alias("twice"),
        F.count(F.when(F.col("amount") > 0, 1)),
        F.max(F.upper("user")).alias("loud"),
        F.expr("sum(abs(amount) + 1)"),
        F.expr("min(concat(user, ', (', 'it\\'s'))"),
    ]


def test_expressions_and_sql_text_are_sparks(events: Any, tmp_path: Path) -> None:
    ours, _ = run(unskew.balance(events, "user", channels=2).agg(*expressions()), tmp_path / "ours")
    native, _ = run(events.groupBy("user").agg(*expressions()), tmp_path / "native")
    assert len(native) > 1
    assert ours == native
    words = unskew.balance(events, F.col("user"), channels=2).aggregate(total="sum(amount * 2)", n="count")
    in_words, _ = run(words, tmp_path / "words")
    native, _ = run(
        events.groupBy("user").agg(F.sum(F.col("amount") * 2).alias("total"), F.count("*").alias("n")), tmp_path / "two"
    )
    assert in_words == native


def test_two_functions_of_one_name_are_not_one_expression(events: Any) -> None:
    one, other = (F.udf(f, "int") for f in (lambda x: x + 1, lambda x: x + 2))
    rows = unskew.balance(events.withWatermark("ts", "30 seconds"), "user")
    assert rows.agg(F.sum(F.col("amount") + 1), F.max(F.expr("amount + 1"))).operator is not None
    with pytest.raises(ArgumentError, match="two different expressions have the same text"):
        rows.agg(F.sum(one("amount")), F.max(other("amount")))


@pytest.mark.parametrize(
    ("job", "says"),
    [
        (lambda rows: rows.agg(F.sum(F.max("amount"))), "one value of each row"),
        (lambda rows: rows.agg(F.sum(F.explode(F.array("amount")))), "one value of each row"),
        (lambda rows: rows.agg(F.expr("sum(amount) + 1")), "SQL text must be one call"),
        (lambda rows: rows.agg(F.expr("sum(amount) FILTER (WHERE amount > 1)")), "SQL text must be one call"),
        (lambda rows: rows.aggregate(total="sum(distinct amount)"), "with DISTINCT"),
        (lambda rows: rows.aggregate(total="sum(amount amount amount)"), "Spark cannot parse this"),
    ],
)
def test_what_connect_cannot_do_is_refused_with_a_reason(events: Any, job: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(ArgumentError, match=says):
        job(unskew.balance(events, "user"))


def test_a_view_in_memory_is_refused(events: Any, tmp_path: Path) -> None:
    writer = unskew.balance(events, "user").aggregate(n="count").writeStream.format("memory").queryName("counted")
    with pytest.raises(ArgumentError, match="another process"):
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert not (tmp_path / "checkpoint").exists()
