from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew_lab.demo import Batch, Race, Settings
from unskew_lab.demo.run import Result


def pretend(monkeypatch, interrupted=False):
    """Have the command run a race of one batch each that has been run already."""
    race = Race()
    race.add("hash", Batch(0, 3.0, (600, 200), (1.8, 0.6), totals={"a": 800}))
    race.add("unskew", Batch(0, 2.0, (400, 400), (1.2, 1.2), totals={"a": 800}, moves=4))

    def run(settings, view, out, keep):
        asked.append(settings)
        exact = None if interrupted else True
        return Result(settings, race, out, interrupted, exact, keep, out.with_name("unskew-demo-watch.html"))

    asked = []
    monkeypatch.setattr("unskew_lab.demo.run.run", run)
    return asked


def test_json_has_all_of_it(monkeypatch):
    asked = pretend(monkeypatch)
    arguments = ["demo", "--json", "--batches", "1", "--rows", "800", "--channels", "2", "--out", "page.html"]
    result = CliRunner().invoke(app, arguments)
    printed = json.loads(result.stdout)
    assert result.exit_code == 0
    assert asked == [Settings(batches=1, rows=800, channels=2)]
    assert printed["speedup"] == pytest.approx(1.5)
    assert printed["same_result"] is True
    assert printed["exact"] is True
    assert printed["racers"]["hash"]["figures"]["mean_imbalance"] == pytest.approx(1.5)
    assert printed["racers"]["unskew"]["batches"][0]["channel_rows"] == [400, 400]
    assert printed["page"] == "page.html"


def test_people_get_the_table_and_the_page(monkeypatch):
    assert pretend(monkeypatch) == []
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    assert "throughput, rows/s" in result.stdout
    assert "1.50x" in result.stdout
    assert "unskew-demo.html" in result.stdout
    assert "unskew-demo-watch.html" in result.stdout
    assert "equal to a batch recount" in result.stdout
    assert "unskew report artifacts/demo/" in result.stdout


def test_ctrl_c_is_told_by_the_exit_code(monkeypatch):
    pretend(monkeypatch, interrupted=True)
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 130
    assert result.stdout.splitlines()[-1] == "Stopped."
