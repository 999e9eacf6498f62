"""Channels that come and go: what moves, and nothing but that."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.planners import planner
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

SLOTS = 60
STEPS = (*range(1, 11), *range(9, 1, -1), 2)
JUMPS = (1, 10, 10, 2, 2, 2)


def fewest_moves(owners: np.ndarray, channels: int) -> int:
    """Return how many slots have to move at least so that `channels` channels hold as many each, or one more.

    Those who hold most keep the odd ones; whoever holds more than that gives up the rest.
    """
    held = sorted(np.bincount(owners, minlength=max(10, channels))[:channels], reverse=True)
    shares = [len(owners) // channels + (place < len(owners) % channels) for place in range(channels)]
    return len(owners) - sum(min(have, share) for have, share in zip(held, shares, strict=True))


WAYS = [pytest.param(STEPS, id="steps", marks=pytest.mark.slow), pytest.param(JUMPS, id="jumps")]


@pytest.mark.parametrize("wishes", WAYS)
@pytest.mark.slow
def test_no_more_moves_than_must(spark, tmp_path: Path, wishes: tuple[int, ...]) -> None:
    """From one channel to ten and back to two: exact counts, one batch a step, and each step moves the fewest slots."""
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, 500, 300) for _ in range(len(wishes) + 2)]
    data = write_batches(tmp_path / "data", [pa.table({"key": column}) for column in keys])
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(data)
    balanced = unskew.balance(events, "key", channels=1, planner=planner("keep"), slots=SLOTS)
    queries, tables, totals = [], [], {}

    def write(rows, batch_id: int) -> None:
        totals.update({row.key: row.n for row in rows.collect()})
        while not queries:
            time.sleep(0.01)
        tables.append(queries[0].routing_table)
        queries[0].resize(wishes[min(batch_id, len(wishes) - 1)])

    writer = balanced.aggregate(n="count").writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    queries.append(writer.foreachBatch(write).trigger(availableNow=True).start())
    queries[0].awaitTermination()
    assert totals == Counter(np.concatenate(keys).tolist())
    # a wish in batch n is planned for batch n + 1, and carried out in it
    assert [table.channels for table in tables] == [1, *wishes, wishes[-1]][: len(tables)]
    assert any(figures.moved_bytes > 0 for figures in queries[0].figures)
    moved = Counter(batch_id for batch_id, _ in queries[0].moves)
    for batch_id, (before, after) in enumerate(pairwise(tables), start=1):
        assert moved[batch_id] == fewest_moves(before.slots, after.channels), f"batch {batch_id}"
