"""TPC-H's query 5 in four balanced stages, beside Spark SQL on every window."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from unskew.errors import ArgumentError
from unskew.jobs.tpch_q5 import STAGES, Inputs, TpchQ5, batch_results, read, read_stream, write
from unskew.operators.durations import microseconds
from unskew.workloads.tpch import Tpch

WINDOW, SLIDE = "15 minutes", "5 minutes"


@pytest.mark.spark
@pytest.mark.slow
def test_every_window_equals_spark_sql(spark, tmp_path: Path) -> None:
    """The pipeline runs on the first half of the hour, ends, and goes on with the second from its checkpoints."""
    tpch = Tpch(scale=0.01)
    data, folder = str(tmp_path / "data"), tmp_path / "stages"
    write(tpch, data, slices=6)
    later = [file for name in ("orders", "lineitem") for file in sorted((tmp_path / "data" / name).iterdir())[3:]]
    for file in later:
        file.rename(file.with_name(f"_{file.name}"))  # Spark does not see these
    query = TpchQ5(
        spark,
        read_stream(spark, data),
        str(folder),
        WINDOW,
        SLIDE,
        output_mode="update",
        options={"channels": 3, "tolerance": 0.01, "min_gain": -1.0},
    )
    query.run()
    for file in later:
        file.with_name(f"_{file.name}").rename(file)
    second = replace(query, inputs=read_stream(spark, data)).run()
    moves = {name: len(second[name].moves) for name in STAGES}
    assert all(moves.values()), moves
    assert all(second[name].recentProgress[0].batchId >= 3 for name in STAGES), "from where the first run ended"
    truth = batch_results(spark, read(spark, data), tpch, WINDOW, SLIDE, "ASIA")
    starts = {start for _, start in truth}
    assert {nation for nation, _ in truth} == {"CHINA", "INDIA", "INDONESIA", "JAPAN", "VIETNAM"}
    assert len(starts) >= 12, "an hour of windows that begin every five minutes"
    assert query.results() == truth

    (folder / "nation").rename(folder / "updates")
    once = replace(query, output_mode="append")
    once.start("nation", availableNow=True).awaitTermination()
    watermark = max(starts) - microseconds(WINDOW)
    closed = {start for start in starts if start + microseconds(SLIDE) <= watermark}
    assert len(closed) >= 5
    expected = {place: revenue for place, revenue in truth.items() if place[1] in closed}
    assert once.results() == expected
    written = [pq.read_table(each, partitioning=None) for each in (folder / "nation" / "out").glob("batch_id=*")]
    assert sum(table.num_rows for table in written) == len(expected), "each window once"


def test_windows_that_leave_gaps_are_refused() -> None:
    none = Inputs(*[None] * 6)
    with pytest.raises(ArgumentError, match="at most their size"):
        TpchQ5(None, none, "", window="5 minutes", slide="6 minutes")
