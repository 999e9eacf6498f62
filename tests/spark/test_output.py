"""What of a batch's output travels to the driver, beside a plain count of the same rows."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.classic.dataframe import DataFrame

import unskew
from unskew.spark import output, writer
from unskew.spark.channel import ChannelSettings
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

FOR_THE_DRIVER = 50_000


def counted(key, rows, state):
    n = len(rows) + (state[0] if state else 0)
    return (n,), (key[0], n)


def test_a_large_output_after_small_ones_stays_on_the_executors(
    spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [range(50), range(50), range(10_000), range(20, 80)]
    at = datetime(2024, 1, 1, tzinfo=UTC)
    tables = [pa.table({"k": pa.array(list(batch), pa.int64()), "at": [at] * len(batch)}) for batch in keys]
    write_batches(tmp_path / "data", tables)
    rows = spark.readStream.schema("k long, at timestamp").option("maxFilesPerTrigger", 1)
    events = rows.parquet(str(tmp_path / "data")).withWatermark("at", "1 minute")
    monkeypatch.setattr(writer, "ChannelSettings", partial(ChannelSettings, bytes_for_the_driver=FOR_THE_DRIVER))
    monkeypatch.setattr(output, "MUCH_STATE_BYTES", 0)
    fetched: list[int] = []
    to_arrow = DataFrame.toArrow

    def watched(frame: DataFrame) -> pa.Table:
        table = to_arrow(frame)
        fetched.append(table.nbytes)
        return table

    found: dict[int, list[tuple[int, int]]] = {}
    kept = spark.sparkContext._jsc.getPersistentRDDs().size()

    def sink(rows: DataFrame, batch_id: int) -> None:
        found[batch_id] = sorted(map(tuple, rows.collect()))
        assert rows.count() == len(found[batch_id]), "rows can be read again"

    monkeypatch.setattr(DataFrame, "toArrow", watched)
    balanced = unskew.balance(events, "k", channels=2, tracked_keys=100)
    stage = balanced.apply_per_key(counted, "k long, n long", "n long")
    assert stage.operator.time_mode == "event"
    query = stage.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(sink)
    query.trigger(availableNow=True).start().awaitTermination()

    totals: Counter[int] = Counter()
    for batch_id, batch in enumerate(keys):
        totals.update(batch)
        assert found[batch_id] == [(key, totals[key]) for key in batch]
    reports = 100_000  # of slots, which all have rows in the large batch
    assert len(fetched) >= len(keys) and max(fetched) < FOR_THE_DRIVER + reports
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == kept, "what was kept is given back"
