"""State beyond the memory that channels have."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import unskew
from unskew.errors import ArgumentError
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def write_keys(folder: Path, batches: int, rows: int, keys: int) -> Counter:
    rng, truth = np.random.default_rng(3), Counter()
    tables = []
    for batch in range(batches):
        drawn = rng.permutation(keys)[:rows] if batch == 0 else rng.integers(0, keys, rows)
        truth.update(drawn.tolist())
        tables.append(pa.table({"user": drawn, "text": [f"text of user {key}" for key in drawn.tolist()]}))
    write_batches(folder, tables)
    return truth


def run(spark, folder: Path, checkpoint: Path, **options):
    events = spark.readStream.schema("user long, text string").option("maxFilesPerTrigger", 1).parquet(str(folder))
    counts: dict[int, int] = {}

    def sink(rows, batch_id: int) -> None:
        counts.update({row.user: row.n for row in rows.collect()})

    query = (
        unskew.balance(events, "user", slots=64, **options)
        .aggregate(n="count", text="max(text)")
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    return counts, query


def test_a_tenth_of_the_memory_gives_the_same_answers(spark, tmp_path: Path) -> None:
    truth = write_keys(tmp_path / "data", batches=4, rows=4000, keys=4000)
    counts, query = run(spark, tmp_path / "data", tmp_path / "free", channels=2, planner="keep")
    assert counts == truth
    held = query.loads["state_bytes"].to_pylist()
    assert query.loads["spilled_bytes"].to_pylist() == [0, 0]
    budgets = [held[0] // 10, 2 * held[1]]
    counts, query = run(spark, tmp_path / "data", tmp_path / "tight", channels=2, planner="keep", memory_bytes=budgets)
    assert counts == truth
    spilled = query.loads["spilled_bytes"].to_pylist()
    assert spilled[0] >= 0.9 * held[0]
    assert spilled[1] == 0
    with pytest.raises(ArgumentError, match="at least 0, got -2"):
        query.limit_memory([1, -2])


@pytest.mark.slow
def test_flux_ends_spilling_where_there_is_memory_enough(spark, tmp_path: Path) -> None:
    """Two of eight channels have half of what they would need; all together have more than enough."""
    truth = write_keys(tmp_path / "data", batches=26, rows=6000, keys=8000)
    _, query = run(spark, tmp_path / "data", tmp_path / "free", channels=8, planner="keep")
    fair = max(query.loads["state_bytes"].to_pylist())
    budgets = [fair // 2] * 2 + [int(1.6 * fair)] * 6
    counts, query = run(
        spark, tmp_path / "data", tmp_path / "tight", channels=8, planner="flux-hybrid", memory_bytes=budgets
    )
    assert counts == truth
    print([figures.moved_slots for figures in query.figures], query.loads.to_pandas().to_string())
    assert query.loads["spilled_bytes"].to_pylist() == [0] * 8
    assert len(query.moves) > 0
