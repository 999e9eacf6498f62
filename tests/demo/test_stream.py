from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew.demo import Settings
from unskew.demo.run import run
from unskew.demo.view import NoView
from unskew.workloads import workload

SMALL = Settings(batches=3, rows=3_000, channels=4, keys=50, shift=10, batches_per_shift=2, microseconds_per_row=1)


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

    from unskew.demo.operator import costly_count

    monkeypatch.setattr(TaskContext, "get", type("Context", (), {"partitionId": lambda self: 3}))
    state, count = State(), costly_count(0.0)
    for expected in ((5, 5), (2, 7)):
        frames = iter([pd.DataFrame({"key": ["a"] * expected[0]})])
        [answer] = count(("a",), frames, state)
        assert (answer["rows"][0], answer["total"][0], answer["channel"][0]) == (*expected, 3)


@pytest.mark.spark
def test_batches_are_those_of_the_workload_on_the_channels_of_sparks_hash(spark, tmp_path):
    partitions_before = spark.conf.get("spark.sql.shuffle.partitions")
    result = run(SMALL, NoView(), tmp_path / "page.html")
    assert [batch.number for batch in result.batches] == [0, 1, 2]
    assert not result.interrupted
    stream = workload("key-shift", exponent=1.0, keys=50, shift=10, interval_seconds=1, every_seconds=2)
    names = spark.createDataFrame([(f"user-{key}",) for key in range(50)], "key string")
    channel_of = {row.key: row.channel for row in names.selectExpr("key", "pmod(hash(key), 4) as channel").collect()}
    for batch in result.batches:
        counts = Counter(f"user-{key}" for key in stream.keys(batch.number, 3_000).tolist())
        rows = [0] * 4
        for name, count in counts.items():
            rows[channel_of[name]] += count
        assert batch.channel_rows == tuple(rows)
        assert [key.rows for key in batch.hot_keys] == [count for _, count in counts.most_common(5)]
        assert all(counts[key.name] == key.rows and channel_of[key.name] == key.channel for key in batch.hot_keys)
        assert batch.seconds > max(batch.channel_seconds) > 0
    assert result.batches[0].hot_keys[0].name == "user-0"
    assert result.batches[2].hot_keys[0].name == "user-10"
    assert spark.conf.get("spark.sql.shuffle.partitions") == partitions_before


@pytest.mark.spark
def test_the_command_prints_json_and_writes_the_page(spark, tmp_path):
    page = tmp_path / "page.html"
    arguments = ["demo", "--json", "--batches", "2", "--rows", "400", "--channels", "2", "--out", str(page)]
    result = CliRunner().invoke(app, arguments)
    printed = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [batch["rows"] for batch in printed["batches"]] == [400, 400]
    assert printed["summary"]["batches"] == 1
    assert printed["page"] == str(page)
    assert page.exists()


@pytest.mark.spark
def test_ctrl_c_keeps_what_was_seen_and_stops_the_query(spark, tmp_path):
    class Impatient(NoView):
        def show(self, batches):
            raise KeyboardInterrupt

    result = run(Settings(batches=500, rows=200, channels=2), Impatient(), tmp_path / "page.html")
    assert result.interrupted
    assert len(result.batches) == 1
    assert result.page.exists()
    assert spark.streams.active == []
    assert spark.range(3).count() == 3


@pytest.mark.spark
def test_it_ends_when_the_time_is_up(spark, tmp_path):
    result = run(Settings(batches=500, rows=200, channels=2, most_seconds=0.1), NoView(), tmp_path / "page.html")
    assert 1 <= len(result.batches) < 500
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
        if line.startswith("batch 1:"):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
            break
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out.splitlines()[-1] == "Stopped."
    assert err == ""
    assert (tmp_path / "p.html").exists()
