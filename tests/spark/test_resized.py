"""Checkpoints with another number of state partitions, made offline."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import unskew
from unskew.cli import main
from unskew.errors import ArgumentError, CheckpointError
from unskew.spark.resized import resize_checkpoint
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def forget_commit(checkpoint: Path, batch_id: int) -> None:
    """Leave a checkpoint as if the driver had died before this batch was committed."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink()


@pytest.mark.slow
def test_a_resized_checkpoint_goes_on_exactly(spark, tmp_path, capsys) -> None:
    """State moves all the time, and the last batch before was planned and not committed."""
    keys = [np.random.default_rng(i).zipf(1.4, 1500) % 200 for i in range(6)]
    write_batches(tmp_path / "data", [pa.table({"key": each}) for each in keys[:3]])
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    seen: dict[int, dict[int, int]] = {}

    def remember(rows, batch_id: int) -> None:
        found = {row.key: row.n for row in rows.collect()}
        assert seen.setdefault(batch_id, found) == found  # a batch that runs again gives the same

    def start(checkpoint: Path, max_channels: int):
        balanced = unskew.balance(events, "key", channels=2, max_channels=max_channels, tolerance=0.0, min_gain=0.0)
        writer = balanced.aggregate(n="count").writeStream.option("checkpointLocation", str(checkpoint))
        return writer.trigger(availableNow=True).foreachBatch(remember).start()

    old, new = tmp_path / "old", tmp_path / "new"
    first = start(old, 2)
    first.awaitTermination()
    assert len(first.moves) > 0
    forget_commit(old, 2)
    with pytest.raises(CheckpointError, match=r"max_channels = 2, got 5 .*unskew resize .*old --max-channels 5"):
        start(old, 5)

    with pytest.raises(SystemExit) as ended:
        main(["resize", str(old), "--max-channels", "5", "--to", str(new), "--json"])
    done = json.loads(capsys.readouterr().out)
    assert not ended.value.code
    assert (done["max_channels_before"], done["max_channels"], done["channels"], done["batch_id"]) == (2, 5, 2, 1)
    assert done["state_bytes"] > 0

    write_batches(tmp_path / "data", [pa.table({"key": each}) for each in keys[3:]], first=3)
    query = start(new, 5)
    query.resize(5)
    query.awaitTermination()
    assert query.exception() is None
    assert sorted(seen) == list(range(6))
    totals: Counter[int] = Counter()
    for batch_id, column in enumerate(keys):
        totals.update(column.tolist())
        assert seen[batch_id] == {key: totals[key] for key in set(column.tolist())}
    assert query.routing_table.channels == 5
    assert [figures.channels for figures in query.figures][-1] == 5

    with pytest.raises(ArgumentError, match="5 channels are in use, got 4"):
        resize_checkpoint(spark, str(new), 4, str(tmp_path / "smaller"))
    with pytest.raises(ArgumentError, match="there is something already"):
        resize_checkpoint(spark, str(old), 5, str(new))
    with pytest.raises(CheckpointError, match="not the checkpoint of a balanced query"):
        resize_checkpoint(spark, str(tmp_path / "data"), 5, str(tmp_path / "other"))
    assert not (tmp_path / "smaller").exists()


@pytest.mark.slow
@pytest.mark.parametrize("max_channels", [2, 4])
def test_watermarks_and_timeouts_are_carried_over(spark, tmp_path, max_channels) -> None:
    """Beside Spark's own applyInPandasWithState, stopped at the same place; also to fewer than before."""
    random = np.random.default_rng(0)
    tables = []
    for number in range(6):
        seconds = np.sort(random.integers(number * 60, number * 60 + 60, 300))
        times = pa.array((1_700_000_000 + seconds) * 1_000_000).cast(pa.timestamp("us", "UTC"))
        tables.append(pa.table({"user": (random.zipf(1.5, 300) % 40).astype(np.int64), "at": times}))

    def sessions(key, frames, state):
        if state.hasTimedOut:
            yield pd.DataFrame({"user": [key[0]], "rows": [state.get[0]], "ended": [True]})
            state.remove()
            return
        rows = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((rows,))
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 30_000)
        yield pd.DataFrame({"user": [key[0]], "rows": [rows], "ended": [False]})

    def run(grouped, checkpoint: Path) -> list:
        rows: list = []
        stream = grouped.applyInPandasWithState(
            sessions, "user long, rows long, ended boolean", "rows long", "update", "EventTimeTimeout"
        )
        writer = stream.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).foreachBatch(
            lambda batch, _: rows.extend(map(tuple, batch.collect()))
        ).start().awaitTermination()
        return rows

    def events():
        stream = spark.readStream.schema("user long, at timestamp").option("maxFilesPerTrigger", 1)
        return stream.parquet(str(tmp_path / "data")).withWatermark("at", "10 seconds")

    def native() -> list:
        return run(events().groupBy("user"), tmp_path / "native")

    def balanced(checkpoint: Path, most: int) -> list:
        return run(unskew.balance(events(), "user", channels=2, max_channels=most, tolerance=0.0), checkpoint)

    write_batches(tmp_path / "data", tables[:3])
    theirs, ours = native(), balanced(tmp_path / "old", 3)
    resize_checkpoint(spark, str(tmp_path / "old"), max_channels, str(tmp_path / "new"))
    write_batches(tmp_path / "data", tables[3:], first=3)
    theirs += native()
    ours += balanced(tmp_path / "new", max_channels)
    assert any(ended for _, _, ended in theirs)
    assert sorted(ours) == sorted(theirs)
