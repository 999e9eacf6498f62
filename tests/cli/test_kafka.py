from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew.cli import app, main

runner = CliRunner()
COMMANDS = ("up", "status", "down", "gateway")


def test_the_group_lists_its_commands():
    shown = runner.invoke(app, ["kafka", "--help"]).stdout
    assert all(f" {name} " in shown for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_json(name):
    shown = runner.invoke(app, ["kafka", name, "--help"], env={"COLUMNS": "120"}).stdout
    assert f"unskew kafka {name}" in shown.partition("Examples")[2]
    assert "--json" in shown


@pytest.mark.parametrize("name", ["status", "down"])
def test_no_broker_runs(name, tmp_path):
    folder = ["--folder", str(tmp_path)]
    assert runner.invoke(app, ["kafka", name, *folder]).stdout == "No broker of unskew is running.\n"
    answer = json.loads(runner.invoke(app, ["kafka", name, *folder, "--json"]).stdout)
    assert answer == {"running": False, "bootstrap": None, "pid": None}


def test_down_deletes_only_what_a_broker_made(tmp_path):
    (tmp_path / "mine.txt").touch()
    runner.invoke(app, ["kafka", "down", "--folder", str(tmp_path), "--delete"])
    assert (tmp_path / "mine.txt").exists()
    (tmp_path / "server.properties").write_text("listeners=PLAINTEXT://127.0.0.1:1\n")
    (tmp_path / "data").mkdir()
    runner.invoke(app, ["kafka", "down", "--folder", str(tmp_path), "--delete"])
    assert (tmp_path / "data").exists(), "somebody else's settings"
    (tmp_path / "server.properties").write_text("# written by unskew kafka up\n")
    runner.invoke(app, ["kafka", "down", "--folder", str(tmp_path), "--delete"])
    assert [each.name for each in tmp_path.iterdir()] == ["mine.txt"]


def failing(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["kafka", "gateway", "--source", "rate", "--key", "value", "--topic", "t", *arguments])
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_the_gateway_says_what_is_missing(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert "unskew kafka up" in failing(capsys)
    assert "NAME=VALUE" in failing(capsys, "--servers", "127.0.0.1:1", "--option", "kafka.acks")
