"""Several inputs in one stage, and several stages in one pipeline, beside batch computations of the same rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.errors import ArgumentError, CheckpointError, ColumnError
from unskew.operators import IntervalJoin
from unskew.testing import write_batches
from unskew.versions.sources import LIMITS_READS

pytestmark = pytest.mark.spark

DELAY = "8 minutes"
START = datetime(2024, 1, 1, tzinfo=UTC)


def stream(spark, folder: Path, schema: str):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def drawn(rng: np.random.Generator, column: str, batch: int, rows: int = 800) -> pa.Table:
    users = [None if k == 5 else f"u{k}" for k in (rng.zipf(1.4, rows) % 200).tolist()]
    times = [START + timedelta(minutes=10 * batch, seconds=int(s)) for s in rng.integers(0, 600, rows)]
    return pa.table({"user": pa.array(users, pa.string()), column: rng.integers(0, 100, rows), "at": times})


def run(stage, checkpoint: Path, path: Path):
    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).format("parquet")
    query = writer.trigger(availableNow=True).start(str(path))
    query.awaitTermination()
    return query


def test_two_inputs_meet_in_one_stage_and_two_stages_chain(spark, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    orders, payments = ([drawn(rng, column, b) for b in range(3)] for column in ("amount", "cents"))
    write_batches(tmp_path / "orders", orders)
    write_batches(tmp_path / "payments", payments)
    rows = unskew.tagged(
        "user",
        orders=stream(spark, tmp_path / "orders", "user string, amount long, at timestamp"),
        payments=stream(spark, tmp_path / "payments", "user string, cents long, at timestamp"),
    )
    assert rows.columns == ["user", "input", "orders_amount", "orders_at", "payments_cents", "payments_at"]
    balanced = unskew.balance(rows, "user", channels=3, plan="own", tolerance=0.01, min_gain=0.0)
    stage = balanced.aggregate(n="count(orders_amount)", ordered="sum(orders_amount)", paid="sum(payments_cents)")
    query = run(stage, tmp_path / "first", tmp_path / "log")
    assert len(query.moves) > 0

    n, ordered, paid = Counter(), Counter(), Counter()
    for table in orders:
        n.update(table["user"].to_pylist())
        for user, amount in zip(table["user"].to_pylist(), table["amount"].to_pylist(), strict=True):
            ordered[user] += amount
    for table in payments:
        for user, cents in zip(table["user"].to_pylist(), table["cents"].to_pylist(), strict=True):
            paid[user] += cents
    final = {}
    folders = [tmp_path / "log" / f"batch_id={batch}" for batch in range(3)]
    for folder in folders:
        final |= {row["user"]: row for row in pq.read_table(folder, partitioning=None).to_pylist()}
    assert {user: row["n"] for user, row in final.items() if row["n"]} == n
    assert {user: row["ordered"] or 0 for user, row in final.items()} == {user: ordered[user] for user in final}
    assert {user: row["paid"] or 0 for user, row in final.items()} == {user: paid[user] for user in final}

    schema = "user string, n long, ordered long, paid long"
    log = unskew.read_committed(spark, str(tmp_path / "log"), schema, checkpoint=str(tmp_path / "first"))
    second = unskew.balance(log, "user", channels=2).aggregate(batches="count")
    run(second, tmp_path / "second", tmp_path / "out")
    seen = Counter(row["user"] for folder in folders for row in pq.read_table(folder, partitioning=None).to_pylist())
    read = {}
    for batch in range(3 if LIMITS_READS else 1):
        folder = tmp_path / "out" / f"batch_id={batch}"
        read |= {row["user"]: row["batches"] for row in pq.read_table(folder, partitioning=None).to_pylist()}
    assert read == seen


def test_paths_without_a_scheme_belong_to_the_default_filesystem(spark) -> None:
    def places(path: str, checkpoint: str) -> tuple[str, str]:
        log = unskew.read_committed(spark, path, "user string", checkpoint=checkpoint)
        options = log._jdf.queryExecution().analyzed().extraOptions()
        return options.get("path"), options.get("checkpoint")

    spark.conf.set("fs.defaultFS", "hdfs://127.0.0.1:8020")
    try:
        assert places("/logs/a", "/chk/a") == ("hdfs://127.0.0.1:8020/logs/a", "hdfs://127.0.0.1:8020/chk/a")
        assert places("file:/logs/a", "file:///chk/a b") == ("file:/logs/a", "file:/chk/a b")
    finally:
        spark.conf.unset("fs.defaultFS")
    assert places("/logs/a", "/chk/a") == ("file:/logs/a", "file:/chk/a")


def test_inputs_with_watermarks_share_the_least_of_them(spark, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    clicks = stream(spark, tmp_path / "data", "user string, at timestamp").withWatermark("at", "1 minute")
    sales = stream(spark, tmp_path / "data", "user string, sold timestamp").withWatermark("sold", "2 minutes")
    rows = unskew.tagged("user", clicks=clicks, sales=sales)
    assert rows.columns == ["user", "input", "time", "clicks_at", "sales_sold"]
    stage = unskew.balance(rows, "user").apply_per_key(
        lambda key, rows, state: (state, []), "n long", "n long", timeout="EventTimeTimeout"
    )
    assert stage.operator.event_time == "time"
    without = stream(spark, tmp_path / "data", "user string, at timestamp")
    with pytest.raises(ArgumentError, match="either all streams have one watermark"):
        unskew.tagged("user", clicks=clicks, without=without)


def test_inputs_that_do_not_fit_are_refused(spark, tmp_path: Path) -> None:
    left, right = (stream(spark, tmp_path, f"user {kind}, n long") for kind in ("string", "long"))
    with pytest.raises(ColumnError, match="the key has type bigint here, and string elsewhere"):
        unskew.tagged("user", left=left, right=right)
    with pytest.raises(ColumnError, match="stream 'right'"):
        unskew.tagged("user", left=left, right=right.drop("user"))
    with pytest.raises(ArgumentError, match="two streams or more"):
        unskew.tagged("user", left=left)


def test_only_committed_batches_are_read(tmp_path: Path) -> None:
    from pyspark.sql.types import StructType

    from unskew.spark.committed import CommittedReader
    from unskew.versions.sources import ReadAllAvailable

    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    reader = CommittedReader(str(log), str(checkpoint), 2, StructType().add("n", "long"))
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"batch": 0}
    (checkpoint / "unskew" / "commit").mkdir(parents=True)
    for batch in range(4):
        (log / f"batch_id={batch}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [batch]}), log / f"batch_id={batch}" / "part-0.parquet")
        if batch < 3:
            (checkpoint / "unskew" / "commit" / str(batch)).touch()
    assert reader.latestOffset({"batch": 0}, reader.getDefaultReadLimit()) == {"batch": 2}
    assert reader.latestOffset({"batch": 2}, ReadAllAvailable()) == {"batch": 3}, "batch 3 is not committed"
    files = reader.partitions({"batch": 1}, {"batch": 3})
    assert [batch.to_pydict() for file in files for batch in reader.read(file)] == [{"n": [1]}, {"n": [2]}]
    (log / "batch_id=1" / "part-0.parquet").unlink()
    with pytest.raises(CheckpointError, match="gone"):
        reader.partitions({"batch": 1}, {"batch": 3})


def rows_of(out: Path) -> list[str]:
    """Return all rows written, sorted."""
    folders = [folder for folder in out.iterdir() if folder.name.startswith("batch_id=")]
    return sorted(repr(row) for f in folders for row in pq.read_table(f, partitioning=None).to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "earliest", "latest"),
    [("inner", "-1 minute", "3 minutes"), ("left", "-1 minute", "3 minutes"), ("left", "-25 minutes", "-19 minutes")],
)
def test_a_join_of_two_streams_equals_sparks(spark, tmp_path: Path, how: str, earliest: str, latest: str) -> None:
    """Out-of-order and late rows, null keys; the last files push the watermark so far that every row is decided."""
    from pyspark.sql import functions as sql

    rng = np.random.default_rng(1)
    orders, payments = ([drawn(rng, column, b, rows=300) for b in range(4)] for column in ("amount", "cents"))
    late = drawn(rng, "amount", 0, rows=50)
    end = pa.table({"user": ["nobody"], "amount": [0], "at": pa.array([START + timedelta(days=1)], late["at"].type)})
    write_batches(tmp_path / "orders", [*orders, late, end, end])
    write_batches(
        tmp_path / "payments", [*payments, *(each.rename_columns(["user", "cents", "at"]) for each in (late, end, end))]
    )
    streams = {
        name: stream(spark, tmp_path / name, f"user string, {column} long, at timestamp").withWatermark("at", DELAY)
        for name, column in (("orders", "amount"), ("payments", "cents"))
    }
    join = IntervalJoin("orders", "payments", earliest=earliest, latest=latest, how=how)
    balanced = unskew.balance(unskew.tagged("user", **streams), "user", channels=3, tolerance=0.01, min_gain=0.0)
    query = run(balanced.apply(join), tmp_path / "ours", tmp_path / "ours-out")
    assert len(query.moves) > 0
    left, right = (
        stream_.select(*(sql.col(column).alias(f"{name}_{column}") for column in stream_.columns))
        for name, stream_ in streams.items()
    )
    condition = (
        f"orders_user = payments_user and payments_at >= orders_at + interval {earliest}"
        f" and payments_at <= orders_at + interval {latest}"
    )
    native = left.join(right, sql.expr(condition), "leftOuter" if how == "left" else "inner")
    native = native.withColumnRenamed("orders_user", "user").drop("payments_user")

    def write_batch(rows, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(f"{tmp_path}/native-out/batch_id={batch_id}")

    writer = native.writeStream.option("checkpointLocation", str(tmp_path / "native")).foreachBatch(write_batch)
    writer.trigger(availableNow=True).start().awaitTermination()
    ours, theirs = rows_of(tmp_path / "ours-out"), rows_of(tmp_path / "native-out")
    assert len(ours) > 500
    assert ours == theirs
