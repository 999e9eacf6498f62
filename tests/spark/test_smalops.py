"""SMALOPS' planner on Spark channels: hot keys move, come home, and every count is right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.hashing import hash_keys
from unskew.planners import planner
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def test_counts_are_exact_while_hot_keys_move_and_cool_down(spark, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    truth: Counter[int] = Counter()
    expected: dict[int, dict[int, int]] = {}
    tables = []
    for batch in range(6):
        keys = rng.zipf(1.3, 3000) % 300 + (1000 if batch >= 2 else 0)  # other keys are hot from the third batch on
        truth.update(keys.tolist())
        expected[batch] = {key: truth[key] for key in set(keys.tolist())}
        tables.append(pa.table({"key": keys}))
    files = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1)
    events = files.parquet(write_batches(tmp_path / "data", tables))
    chosen = planner("smalops", hot_threshold=0.01)
    counted = unskew.balance(events, "key", channels=3, planner=chosen, min_gain=-1.0, plan="own").aggregate(n="count")
    seen: dict[int, dict[int, int]] = {}

    def sink(rows, batch_id: int) -> None:
        seen[batch_id] = {row.key: row.n for row in rows.collect()}

    writer = counted.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).foreachBatch(sink).start()
    query.awaitTermination()
    assert seen == expected
    moved = [move for _, move in query.moves]
    assert len({(move.key, move.target) for move in moved}) > 3
    homes = {str(key): home for key, home in zip(truth, home_of(query, list(truth)), strict=True)}
    assert any(move.target == homes[move.key] for move in moved), "some key came home"
    assert all(report["planner"] == "smalops" for _, report in query.plans)


def home_of(query, keys: list[int]) -> list[int]:
    hashes = hash_keys(pa.table({"key": keys}), "key")
    return query.routing_table.home(hashes).tolist()
