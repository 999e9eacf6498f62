"""Whole queries on Spark, beside native ones on the same rows."""

from __future__ import annotations

import runpy
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.errors import ArgumentError, CheckpointError, ColumnError, FormatError, KeyTypeError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def stream(spark, folder: Path, schema: str):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


class Collect:
    """A sink that remembers what each batch wrote."""

    def __init__(self) -> None:
        self.batches: dict[int, list] = {}

    def __call__(self, rows, batch_id: int) -> None:
        self.batches[batch_id] = rows.collect()

    def sorted(self) -> dict[int, list]:
        return {batch: sorted(rows, key=repr) for batch, rows in self.batches.items()}


def run(balanced, sink, checkpoint: Path, **options):
    writer = balanced.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.options(**options).foreachBatch(sink).start()
    query.awaitTermination()
    return query


def test_aggregates_equal_sparks_in_every_batch_while_keys_move(spark, tmp_path: Path) -> None:
    """Composite keys with nulls, a key with 60 % of the rows, an empty batch, a batch with one key only.

    And the checkpoint's name is no plain word.
    """
    rng = np.random.default_rng(0)

    def rows(n: int) -> pa.Table:
        user = np.where(rng.random(n) < 0.6, "hot", np.char.add("u", (rng.zipf(1.3, n) % 500).astype(str))).tolist()
        return pa.table(
            {
                "user": pa.array([None if u == "u3" else u for u in user], pa.string()),
                "day": pa.array((rng.random(n) * 3).round(0) * np.where(rng.random(n) < 0.5, -0.0, 1.0)),
                "amount": pa.array([None if a == 13 else a for a in rng.integers(0, 50, n).tolist()], pa.int32()),
                "price": rng.integers(0, 640, n) / 64,
            }
        )

    one_key = rows(500).set_column(0, "user", pa.array(["u9"] * 500)).set_column(1, "day", pa.array([1.0] * 500))
    write_batches(tmp_path / "data", [rows(3000), rows(3000), rows(0), one_key, rows(3000), rows(3000)])
    events = stream(spark, tmp_path / "data", "user string, day double, amount int, price double")
    ours, native = Collect(), Collect()
    balanced = unskew.balance(events, ["user", "day"], channels=3, planner="mixed", tolerance=0.01, min_gain=-1.0)
    query = run(
        balanced.aggregate(
            n="count",
            amounts="count(amount)",
            total="sum(amount)",
            least="min(price)",
            most="max(price)",
            mean="avg(price)",
        ),
        ours,
        tmp_path / "100% ours",
    )
    assert (tmp_path / "100% ours" / "unskew").is_dir()
    from pyspark.sql import functions as F

    grouped = events.groupBy("user", "day").agg(
        F.count("*").alias("n"),
        F.count("amount").alias("amounts"),
        F.sum("amount").alias("total"),
        F.min("price").alias("least"),
        F.max("price").alias("most"),
        F.avg("price").alias("mean"),
    )
    started = grouped.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / "native"))
    started.trigger(availableNow=True).foreachBatch(native).start().awaitTermination()
    assert len(query.moves) > 0, "something moved"
    assert ours.sorted() == native.sorted()
    assert ours.batches[0][0].__fields__ == native.batches[0][0].__fields__
    assert query.loads.column("channel").to_pylist() == [0, 1, 2]
    assert sum(query.loads.column("rows").to_pylist()) == 3000
    assert query.routing_table.version > 0
    assert all(report["planner"] == "mixed" for _, report in query.plans)


def test_a_checkpoint_continues_and_refuses_another_query(spark, tmp_path: Path) -> None:
    keys = [np.random.default_rng(i).zipf(1.4, 2000) % 100 for i in range(4)]
    write_batches(tmp_path / "data", [pa.table({"key": k}) for k in keys[:2]])
    events = stream(spark, tmp_path / "data", "key long")
    balanced = unskew.balance(events, "key", channels=2, planner="minmig", tolerance=0.0)
    sink = Collect()
    run(balanced.aggregate(n="count"), sink, tmp_path / "checkpoint")
    write_batches(tmp_path / "data", [pa.table({"key": k}) for k in keys[2:]], first=2)
    query = run(balanced.aggregate(n="count"), sink, tmp_path / "checkpoint")
    final = {row.key: row.n for batch in sorted(sink.batches) for row in sink.batches[batch]}
    assert final == Counter(np.concatenate(keys).tolist())
    assert sorted(sink.batches) == [0, 1, 2, 3]
    assert query.isActive is False

    with pytest.raises(CheckpointError, match="was written with operator ="):
        run(balanced.aggregate(n="max(key)"), sink, tmp_path / "checkpoint")
    other = unskew.balance(events, "key", channels=2, slots=64).aggregate(n="count")
    with pytest.raises(CheckpointError, match="was written with slots = 4096, got 64"):
        run(other, sink, tmp_path / "checkpoint")
    wider = run(unskew.balance(events, "key", channels=3).aggregate(n="count"), sink, tmp_path / "checkpoint")
    assert wider.routing_table.channels == 2, "a query goes on with the channels that it had"

    record = tmp_path / "checkpoint" / "unskew" / "prepared" / "3"
    data = record.read_bytes()
    for damaged in (data[:-5], data[:60] + bytes([data[60] ^ 1]) + data[61:]):
        record.write_bytes(damaged)
        with pytest.raises(FormatError, match=r"prepared/3.*Hint"):
            run(balanced.aggregate(n="count"), sink, tmp_path / "checkpoint")
    record.unlink()
    with pytest.raises(CheckpointError, match=r"prepared/3.*restore the checkpoint"):
        run(balanced.aggregate(n="count"), sink, tmp_path / "checkpoint")


def test_a_start_that_ran_no_batch_pins_nothing(spark, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    events, sink = stream(spark, tmp_path / "data", "key long"), Collect()
    run(unskew.balance(events, "key", channels=2).aggregate(n="max(key)"), sink, tmp_path / "checkpoint")
    assert not sink.batches
    write_batches(tmp_path / "data", [pa.table({"key": [1, 2, 1]})])
    query = run(unskew.balance(events, "key", channels=3).aggregate(n="count"), sink, tmp_path / "checkpoint")
    assert query.routing_table.channels == 3
    assert sink.sorted() == {0: [(1, 2), (2, 1)]}


def test_sinks_by_name_and_sinks_that_read_oddly(spark, tmp_path: Path) -> None:
    write_batches(tmp_path / "data", [pa.table({"key": ["a", "b", "a"]}), pa.table({"key": ["b"]})])
    counted = unskew.balance(stream(spark, tmp_path / "data", "key string"), "key", channels=2).aggregate(n="count")

    counted.writeStream.format("parquet").trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    written = [pq.read_table(tmp_path / "out" / f"batch_id={i}", partitioning=None).to_pylist() for i in (0, 1)]
    assert sorted(written[0], key=repr) == [{"key": "a", "n": 2}, {"key": "b", "n": 1}]
    assert written[1] == [{"key": "b", "n": 2}]

    memory = counted.writeStream.format("memory").queryName("kept").outputMode("update").trigger(availableNow=True)
    memory.start().awaitTermination()
    assert sorted(map(tuple, spark.table("kept").collect())) == [("a", 2), ("b", 1), ("b", 2)]

    seen = []

    def odd(rows, batch_id: int) -> None:
        if batch_id == 0:
            return
        seen.extend([rows.count(), rows.limit(1).collect(), rows.count()])

    run(counted, odd, tmp_path / "odd")
    assert seen[0] == seen[2] == 1


@pytest.mark.slow
def test_a_million_keys_in_one_batch_then_channels_with_nothing_to_do(spark, tmp_path: Path) -> None:
    """Nested columns travel along; most channels are idle for many batches and hold what they held."""
    many = 1_000_000
    nested = pa.StructArray.from_arrays([pa.array([[1, 2]] * 3), pa.array(["x", None, "z"])], ["list", "text"])
    first = pa.table({"key": np.arange(many), "extra": pa.nulls(many, nested.type)})
    few = pa.table({"key": pa.array([7, 7, 8]), "extra": nested})
    write_batches(tmp_path / "data", [first, *[few] * 6, pa.table({"key": pa.array([999_999]), "extra": nested[:1]})])
    events = stream(spark, tmp_path / "data", "key long, extra struct<list: array<long>, text: string>")
    sink = Collect()
    query = run(unskew.balance(events, "key", channels=4).aggregate(n="count"), sink, tmp_path / "checkpoint")
    assert len(sink.batches[0]) == many
    assert sink.batches[7] == [(999_999, 2)]
    assert dict(sink.batches[6]) == {7: 13, 8: 7}
    assert sum(query.loads.column("state_rows").to_pylist()) == many


def test_channels_come_and_go(spark, tmp_path: Path) -> None:
    """From one to four channels and back to two while the query runs; counts stay Spark's."""
    keys = [np.random.default_rng(i).zipf(1.3, 3000) % 300 for i in range(10)]
    write_batches(tmp_path / "data", [pa.table({"key": k}) for k in keys])
    events = stream(spark, tmp_path / "data", "key long")
    balanced = unskew.balance(events, "key", channels=1)
    used, totals = [], {}

    def write(rows, batch_id: int) -> None:
        totals.update({row.key: row.n for row in rows.collect()})
        while not queries:
            time.sleep(0.01)
        used.append(queries[0].routing_table.channels)
        if batch_id in wishes:
            queries[0].resize(wishes[batch_id])

    wishes, queries = {0: 4, 4: 2}, []
    writer = balanced.aggregate(n="count").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    queries.append(writer.foreachBatch(write).trigger(availableNow=True).start())
    queries[0].awaitTermination()
    assert totals == Counter(np.concatenate(keys).tolist())
    assert used[0] == 1
    assert max(used) == 4
    assert used[-1] == 2
    with pytest.raises(ArgumentError, match="from 1 to 4096, got 0"):
        queries[0].resize(0)


def test_the_example_gives_what_spark_gives(spark, tmp_path: Path) -> None:
    """Read from the file, as a user would run it; one line differs."""
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "one_line.py"))
    keys = [np.random.default_rng(i).zipf(1.4, 400) % 50 for i in range(3)]
    write_batches(tmp_path / "data", [pa.table({"user": k, "amount": k / 4}) for k in keys])
    events = stream(spark, tmp_path / "data", "user long, amount double")
    ours, native = (example["run"](events, str(tmp_path / str(way)), way) for way in (False, True))
    assert ours == native
    assert {user: visits for user, (visits, _) in ours.items()} == Counter(np.concatenate(keys).tolist())


def test_delta_is_told_the_transaction(spark, tmp_path: Path) -> None:
    """Delta itself is not at hand; a source of its name takes down what reaches it."""
    from pyspark.sql.datasource import DataSource, DataSourceWriter, WriterCommitMessage

    told = tmp_path / "told"

    class Delta(DataSource):
        @classmethod
        def name(cls) -> str:
            return "delta"

        def writer(self, schema, overwrite: bool) -> DataSourceWriter:
            options = self.options

            class Writer(DataSourceWriter):
                def write(self, iterator) -> WriterCommitMessage:
                    with told.open("a") as file:
                        file.writelines(f"{options['txnappid']} {options['txnversion']} {row.n}\n" for row in iterator)
                    return WriterCommitMessage()

            return Writer()

    spark = spark.newSession()  # other tests rely on there being no such source
    spark.dataSource.register(Delta)
    write_batches(tmp_path / "data", [pa.table({"key": ["a", "a"]}), pa.table({"key": ["a"]})])
    counted = unskew.balance(stream(spark, tmp_path / "data", "key string"), "key", channels=2).aggregate(n="count")
    counted.writeStream.format("delta").trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    lines = [line.split() for line in told.read_text().splitlines()]
    assert [line[1:] for line in lines] == [["0", "2"], ["1", "3"]]
    assert len({line[0] for line in lines}) == 1


def test_bad_arguments_say_what_and_hint(spark, tmp_path: Path) -> None:
    write_batches(
        tmp_path / "data", [pa.table({"key": ["a"], "tags": pa.array([[("x", 1)]], pa.map_("string", "int32"))})]
    )
    events = stream(spark, tmp_path / "data", "key string, tags map<string,int>")
    for call, error, message in (
        (lambda: unskew.balance(events, "kee"), ColumnError, "no column of that name, got 'kee'"),
        (lambda: unskew.balance(events, "tags"), KeyTypeError, "map"),
        (
            lambda: unskew.balance(events.withColumnRenamed("key", "a.b"), "`a.b`").aggregate(n="count"),
            ColumnError,
            "with a dot in its name",
        ),
        (lambda: unskew.balance(events, "key", channels=0), ArgumentError, 'from 1 to 4096, or "auto", got 0'),
        (lambda: unskew.balance(events, "key", planner="mixxed"), ArgumentError, "did you mean 'mixed'"),
        (lambda: unskew.balance(events, "key").aggregate(n="sum(key)"), Exception, "key"),
        (
            lambda: unskew.balance(events, "key").aggregate(n="count").writeStream.trigger(continuous="1 second"),
            ArgumentError,
            "micro-batches",
        ),
        (lambda: unskew.balance(events, "key", channels="8"), ArgumentError, "whole number from 1 to 4096"),
        (lambda: unskew.balance(events, "key", tolerance=8), ArgumentError, "share of the mean load"),
        (lambda: unskew.balance(events, "key", sample=0.1), ArgumentError, "is for static rows"),
        (lambda: unskew.balance(events, "key", plan="late"), ArgumentError, "ahead"),
        (lambda: unskew.balance({"key": [1]}, "key"), ArgumentError, "not a Spark DataFrame"),
        (
            lambda: unskew.balance(events, "key", channels="auto").aggregate(n="count").writeStream.start("x"),
            ArgumentError,
            "needs a trigger with an interval",
        ),
        (lambda: unskew.balance(events, "key", interval="soon"), ArgumentError, "not a duration, got 'soon'"),
        (lambda: unskew.balance(events, "key", interval=0), ArgumentError, "at least 1, got 0"),
        (
            lambda: unskew.balance(events, "key").aggregate(n="count").writeStream.outputMode("append"),
            ArgumentError,
            "append mode needs windows",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
