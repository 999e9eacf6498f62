"""A checkpoint that is continued with another schema, key, operator or option: refused before anything runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import unskew
from unskew.errors import CheckpointError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

SCHEMA = "k int, x int, at timestamp"


def kept(key: Any, rows: Any, state: Any) -> Any:
    n = len(rows) + (state[0] if state else 0)
    return (n,), (n,)


def start(stage: Any, checkpoint: Path) -> list[Any]:
    found: list[Any] = []
    writer = stage.writeStream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.foreachBatch(lambda rows, _: found.extend(map(tuple, rows.collect()))).start().awaitTermination()
    return found


Start = tuple[str, Callable[[Any], Any]]
AGGREGATED: Callable[[Any], Any] = lambda events: unskew.balance(events, "k", "at", channels=2).agg(F.max("x"))  # noqa: E731
CALLED: Callable[[Any], Any] = lambda events: unskew.balance(events, "k", channels=2).apply_per_key(  # noqa: E731
    kept, "n long", "n long"
)

# a name, the schema and the query of the second start, and what is said about it
REFUSED: dict[str, tuple[Callable[[Any], Any], str, Callable[[Any], Any], str]] = {
    "key as text": (
        AGGREGATED,
        "k string, x int, at timestamp",
        AGGREGATED,
        "types: key k: int32.*got 'key k: string",
    ),
    "wider key": (AGGREGATED, "k long, x int, at timestamp", AGGREGATED, "key k: int64.*cast the stream's columns"),
    "time without zone": (AGGREGATED, "k int, x int, at timestamp_ntz", AGGREGATED, "other types"),
    "wider value": (AGGREGATED, "k int, x long, at timestamp", AGGREGATED, "max.*: int64"),
    "value as text": (AGGREGATED, "k int, x string, at timestamp", AGGREGATED, "max.*: string"),
    "another key": (
        AGGREGATED,
        SCHEMA,
        lambda events: unskew.balance(events, "x", "at").agg(F.max("x")),
        r"written with key = \('k', 'at'\), got \('x', 'at'\)",
    ),
    "keys in another order": (
        AGGREGATED,
        SCHEMA,
        lambda events: unskew.balance(events, "at", "k").agg(F.max("x")),
        "use the same key",
    ),
    "another operator": (AGGREGATED, SCHEMA, lambda events: unskew.balance(events, "k", "at").count(), "same operator"),
    "other slots": (
        AGGREGATED,
        SCHEMA,
        lambda events: unskew.balance(events, "k", "at", slots=64).agg(F.max("x")),
        "written with slots = 4096, got 64",
    ),
    "function with a key of text": (CALLED, "k string, x int, at timestamp", CALLED, "other types: key k: int32"),
    "another state": (
        CALLED,
        SCHEMA,
        lambda events: unskew.balance(events, "k").apply_per_key(kept, "n long", "m long"),
        "struct<n:bigint>.*got .*struct<m:bigint>",
    ),
    "another timeout": (
        CALLED,
        SCHEMA,
        lambda events: unskew.balance(events, "k").apply_per_key(
            kept, "n long", "n long", timeout="ProcessingTimeTimeout"
        ),
        "same operator",
    ),
}


def test_second_starts_that_cannot_go_on(spark: Any, tmp_path: Path) -> None:
    """One run of each query, then many starts that are refused and change nothing: the first query goes on."""
    rows = pa.table({"k": [1, 2], "x": [5, 6], "at": pa.array([0, 1], pa.timestamp("us", "UTC"))})
    rows = rows.set_column(0, "k", rows["k"].cast(pa.int32())).set_column(1, "x", rows["x"].cast(pa.int32()))
    folder = write_batches(tmp_path / "rows", [rows])
    checkpoints = {AGGREGATED: tmp_path / "aggregated", CALLED: tmp_path / "called"}
    for query, checkpoint in checkpoints.items():
        assert len(start(query(spark.readStream.schema(SCHEMA).parquet(folder)), checkpoint)) == 2
    before = {path: path.read_bytes() for path in (tmp_path / "called").rglob("*") if path.is_file()}
    for name, (first, schema, second, message) in REFUSED.items():
        with pytest.raises(CheckpointError, match=message):
            start(second(spark.readStream.schema(schema).parquet(folder)), checkpoints[first])
            pytest.fail(f"{name} was accepted")
    assert {path: path.read_bytes() for path in (tmp_path / "called").rglob("*") if path.is_file()} == before

    write_batches(tmp_path / "rows", [rows], first=1)
    more = spark.readStream.schema(f"{SCHEMA}, more string").parquet(folder)
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
        with_limit = unskew.balance(more, "k", channels=3).apply_per_key(kept, "n long", "n long", max_call_seconds=60)
        assert start(with_limit, checkpoints[CALLED]) == [(2,), (2,)], "columns, zone, limit and channels may change"
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.slow
def test_nothing_in_a_checkpoint_depends_on_the_version_of_python(spark: Any, tmp_path: Path) -> None:
    """Everything is JSON or Arrow; a pickle would tie a checkpoint to the interpreter that wrote it."""
    rows = pa.table({"k": pa.array([1, 2], pa.int32()), "x": pa.array([5, 6], pa.int32())})
    events = spark.readStream.schema("k int, x int").parquet(write_batches(tmp_path / "rows", [rows]))
    start(CALLED(events), tmp_path / "checkpoint")
    ours = [path for path in (tmp_path / "checkpoint" / "unskew").rglob("*") if path.is_file()]
    assert any(path.parent.name == "prepared" for path in ours)
    for path in ours:
        data = path.read_bytes()
        assert not any(b"\x80" + bytes([protocol]) + b"\x95" in data for protocol in (4, 5)), f"{path} holds a pickle"
        assert b"cpython" not in data.lower() and b".pyc" not in data
