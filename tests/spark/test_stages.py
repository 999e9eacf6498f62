"""Several inputs in one stage, and several stages in one pipeline, beside batch computations of the same rows."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unskew
from unskew.errors import ArgumentError, CheckpointError, ColumnError

pytestmark = pytest.mark.spark

START = datetime(2024, 1, 1, tzinfo=UTC)


def write(folder: Path, tables: list[pa.Table]) -> None:
    folder.mkdir()
    for batch, table in enumerate(tables):
        path = folder / f"{batch:03d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + batch,) * 2)


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
    write(tmp_path / "orders", orders)
    write(tmp_path / "payments", payments)
    rows = unskew.tagged(
        "user",
        orders=stream(spark, tmp_path / "orders", "user string, amount long, at timestamp"),
        payments=stream(spark, tmp_path / "payments", "user string, cents long, at timestamp"),
    )
    assert rows.columns == ["user", "input", "orders_amount", "orders_at", "payments_cents", "payments_at"]
    balanced = unskew.balance(rows, "user", channels=3, tolerance=0.01, min_gain=0.0)
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
    for batch in range(3):
        folder = tmp_path / "out" / f"batch_id={batch}"
        read |= {row["user"]: row["batches"] for row in pq.read_table(folder, partitioning=None).to_pylist()}
    assert read == seen


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
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import StructType

    from unskew.spark.committed import CommittedReader

    log, checkpoint = tmp_path / "log", tmp_path / "checkpoint"
    reader = CommittedReader(str(log), str(checkpoint), 2, StructType().add("n", "long"))
    assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable()) == {"batch": 0}
    (checkpoint / "commits").mkdir(parents=True)
    for batch in range(4):
        (log / f"batch_id={batch}").mkdir(parents=True)
        pq.write_table(pa.table({"n": [batch]}), log / f"batch_id={batch}" / "part-0.parquet")
        if batch < 3:
            (checkpoint / "commits" / str(batch)).touch()
    assert reader.latestOffset({"batch": 0}, reader.getDefaultReadLimit()) == {"batch": 2}
    assert reader.latestOffset({"batch": 2}, ReadAllAvailable()) == {"batch": 3}, "batch 3 is not committed"
    files = reader.partitions({"batch": 1}, {"batch": 3})
    assert [batch.to_pydict() for file in files for batch in reader.read(file)] == [{"n": [1]}, {"n": [2]}]
    (log / "batch_id=1" / "part-0.parquet").unlink()
    with pytest.raises(CheckpointError, match="gone"):
        reader.partitions({"batch": 1}, {"batch": 3})
