"""A channel that something outside slows down, under Flux's planner."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

CHANNELS, SLOW, ROWS, BATCHES = 4, 3.0, 2000, 12
SECONDS_PER_ROW = 1e-3


def count_slowly(key: tuple[Any, ...], rows: Any, state: tuple[Any, ...] | None) -> Any:
    """Count; a row takes three times as long on the first channel."""
    from pyspark import TaskContext

    n = (state or (0,))[0] + len(rows["x"])
    time.sleep(SECONDS_PER_ROW * len(rows["x"]) * (SLOW if TaskContext.get().partitionId() == 0 else 1.0))
    return (n,), (key[0], n)


@pytest.mark.spark
@pytest.mark.slow
def test_flux_relieves_a_slow_channel_within_ten_batches(tmp_path: Path) -> None:
    """Runs in a process of its own: four channels need four slots of Spark's."""
    done = subprocess.run([sys.executable, __file__, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    print(done.stdout)


def main(home: Path) -> None:
    """Run the stream; the rows are even, so with equal channels there would be nothing to do.

    The planner goes by measured seconds. What it reaches is judged by what a channel's rows cost: a busy machine adds
    its own.
    """
    import unskew
    from unskew.spark.local_session import SHORT_RUN, session
    from unskew.testing import write_batches

    keys = np.random.default_rng(0).integers(0, 400, (BATCHES, ROWS))
    truth = Counter(keys.ravel().tolist())
    write_batches(home / "data", [pa.table({"user": batch, "x": np.ones(ROWS)}) for batch in keys])
    spark = session(master=f"local[{CHANNELS}]", config=SHORT_RUN)
    events = spark.readStream.schema("user long, x double").option("maxFilesPerTrigger", 1).parquet(str(home / "data"))
    counts: dict[int, int] = {}

    def sink(rows: Any, batch_id: int) -> None:
        counts.update({row.user: row.n for row in rows.collect()})

    query = (
        unskew.balance(events, "user", channels=CHANNELS, planner="flux-load", slots=16)
        .apply_per_key(count_slowly, "user long, n long", "n long")
        .writeStream.option("checkpointLocation", str(home / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    ideal_seconds = ROWS * SECONDS_PER_ROW / (CHANNELS - 1 + 1 / SLOW)
    row_seconds = SECONDS_PER_ROW * np.where(np.arange(CHANNELS) == 0, SLOW, 1.0)
    measured = [ideal_seconds / max(figures.channel_seconds) for figures in query.figures]
    reached = [ideal_seconds / max(figures.channel_rows * row_seconds) for figures in query.figures]
    for what, shares in (("by what rows cost", reached), ("as measured", measured)):
        print(f"share of the ideal throughput, {what}:", " ".join(f"{share:.2f}" for share in shares))
    assert reached[0] < 0.6
    assert max(reached[: 10 + 1]) >= 0.85
    assert np.median(reached[-3:]) >= 0.8
    assert counts == truth


if __name__ == "__main__":
    main(Path(sys.argv[1]))
