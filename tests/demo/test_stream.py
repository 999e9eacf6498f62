from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest

from unskew.workloads import workload
from unskew_lab.demo import Settings
from unskew_lab.demo.run import run
from unskew_lab.demo.stream import recount, write_rows
from unskew_lab.demo.view import NoView
from unskew_lab.report import write_report

SMALL = Settings(batches=3, rows=500, channels=2, keys=50, shift=10, batches_per_shift=2, microseconds_per_row=2000)


@dataclass
class State:
    """What Spark hands to a stateful function, as far as it is used."""

    exists: bool = False
    get: tuple[int] = (0,)

    def update(self, value):
        self.exists, self.get = True, value


def test_the_operator_counts_across_batches(monkeypatch):
    import pandas as pd
    from pyspark import TaskContext

    from unskew_lab.demo.operator import costly_count

    monkeypatch.setattr(TaskContext, "get", type("Context", (), {"partitionId": lambda self: 3}))
    state, count = State(), costly_count(0.0)
    for expected in ((5, 5), (2, 7)):
        frames = iter([pd.DataFrame({"key": ["a"] * expected[0]})])
        [answer] = count(("a",), frames, state)
        assert (answer["rows"][0], answer["total"][0], answer["partition"][0]) == (*expected, 3)


def test_files_have_the_rows_of_the_workload_in_order(tmp_path):
    import pyarrow.parquet as pq

    write_rows(SMALL, tmp_path / "rows")
    files = sorted((tmp_path / "rows").iterdir(), key=lambda path: path.stat().st_mtime)
    stream = workload("key-shift", exponent=1.0, keys=50, shift=10, interval_seconds=1, every_seconds=2)
    assert len(files) == SMALL.batches
    for number, path in enumerate(files):
        expected = [f"user-{key}" for key in stream.keys(number, SMALL.rows).tolist()]
        assert pq.read_table(path)["key"].to_pylist() == expected


@pytest.mark.slow
@pytest.mark.spark
def test_both_racers_count_the_workload_on_their_channels(spark, tmp_path):
    partitions_before = spark.conf.get("spark.sql.shuffle.partitions")
    result = run(SMALL, NoView(), tmp_path / "page.html", tmp_path / "kept" / "demo.json")
    race = result.race
    assert not result.interrupted
    assert race.same_result
    assert result.exact is True
    assert f"last batch {SMALL.batches - 1}, begun" in result.watch_page.read_text()
    write_report(tmp_path / "kept" / "demo.json", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text() == result.page.read_text()
    stream = workload("key-shift", exponent=1.0, keys=50, shift=10, interval_seconds=1, every_seconds=2)
    names = spark.createDataFrame([(f"user-{key}",) for key in range(50)], "key string")
    channel_of = {row.key: row.channel for row in names.selectExpr("key", "pmod(hash(key), 2) as channel").collect()}
    write_rows(SMALL, tmp_path / "rows")
    totals = Counter()
    for number in range(SMALL.batches):
        hashed, balanced = race.batches["hash"][number], race.batches["unskew"][number]
        assert hashed.number == balanced.number == number
        counts = Counter(f"user-{key}" for key in stream.keys(number, SMALL.rows).tolist())
        totals += counts
        assert recount(spark, tmp_path / "rows", number + 1) == totals
        rows = [0, 0]
        for name, count in counts.items():
            rows[channel_of[name]] += count
        assert hashed.channel_rows == tuple(rows)
        assert balanced.rows == SMALL.rows
        for batch in (hashed, balanced):
            assert batch.totals == {name: totals[name] for name in counts}
            assert [key.rows for key in batch.hot_keys] == [count for _, count in counts.most_common(5)]
            assert batch.seconds > max(batch.channel_seconds) > 0
        assert hashed.moves == 0
    assert race.batches["unskew"][-1].moves > 0
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions_before
    assert spark.streams.active == []


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_keeps_what_was_seen_and_stops_the_queries(spark, tmp_path):
    class Impatient(NoView):
        def show(self, race, racer):
            raise KeyboardInterrupt

    result = run(Settings(batches=500, rows=200, channels=2), Impatient(), tmp_path / "page.html")
    assert result.interrupted
    assert len(result.race.batches["hash"]) == 1
    assert result.page is None  # there is nothing to compare yet
    assert result.as_dict()["same_result"] is None
    assert result.as_dict()["exact"] is None
    assert spark.streams.active == []
    assert spark.range(3).count() == 3


@pytest.mark.slow
@pytest.mark.spark
def test_it_ends_when_the_time_is_up(spark, tmp_path):
    result = run(Settings(batches=500, rows=200, channels=2, most_seconds=0.1), NoView(), tmp_path / "page.html")
    assert 1 <= result.race.common < 500
    assert not result.interrupted
    assert spark.streams.active == []


@pytest.mark.slow
@pytest.mark.spark
def test_ctrl_c_in_a_shell_is_clean(tmp_path):
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "unskew",
            "demo",
            "--batches",
            "500",
            "--rows",
            "2000",
            "--out",
            str(tmp_path / "p.html"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200"},
        start_new_session=True,
    )
    for line in process.stdout:
        if line.startswith("unskew") and "batch  0:" in line:
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out.splitlines()[-1] == "Stopped."
    assert err == ""
    assert (tmp_path / "p.html").exists()
