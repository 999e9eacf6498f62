"""The command line in the hands of somebody who gets it wrong: one line, exit code 2, no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unskew import cli
from unskew.cli import main

FILES: dict[str, bytes] = {
    "empty.csv": b"",
    "bytes.csv": b"\xb4\xff\x00\n\xfe,\n",
    "bytes.parquet": b"PAR1 and no more",
    "two keys.csv": b"key,key,cost\na,b,1\n",
    "words.csv": b"key,cost\na,much\n",
    "negative.csv": b"key,cost\na,-1\n",
    "good file.csv": b"key,cost\na,1\nb,5\n",
}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "with spaces"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    (folder / "folder.csv").mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return folder


GATEWAY = ["kafka", "gateway", "--source", "rate", "--key", "value", "--topic", "t", "--servers", "127.0.0.1:1"]

WRONG: dict[str, tuple[list[str], str]] = {
    "no file": (["plan", "nope.csv"], "no such file, got 'nope.csv'"),
    "an empty file": (["plan", "empty.csv"], "cannot be read: Empty CSV file"),
    "bytes": (["plan", "bytes.csv"], "FormatError: the file cannot be read"),
    "no Parquet": (["plan", "bytes.parquet"], "FormatError: the file cannot be read"),
    "a folder": (["plan", "folder.csv"], "FormatError: the file cannot be read"),
    "two columns of one name": (["plan", "two keys.csv"], "two columns have the same name, got 'key'"),
    "words for numbers": (["plan", "words.csv"], "column 'cost' is not numeric"),
    "negative numbers": (["plan", "negative.csv"], "StatisticsError"),
    "no channels": (["plan", "good file.csv", "--channels", "0"], "at least one channel, got 0"),
    "no planner": (["plan", "good file.csv", "--planner", "mixxed"], "did you mean 'mixed'"),
    "no tolerance": (["plan", "good file.csv", "--tolerance", "nan"], "tolerance"),
    "a file for a folder": (["workload", "zipf", "--rows", "10", "--out", "good file.csv/x.csv"], "good file.csv"),
    "no workload": (["workload", "zipff"], "did you mean 'zipf'"),
    "no job": (["run", "nope.toml"], "nope.toml"),
    "no results": (["report", "nope"], "nope"),
    "a planner's parameter": (["plan", "good file.csv", "--set", "nope=1"], "has no parameter 'nope'"),
    "a planner's parameter in words": (["plan", "good file.csv", "--set", "window=x"], "window must be a whole number"),
    "a planner's huge parameter": (["plan", "good file.csv", "--set", f"window={10**30}"], "more than 64 bits"),
    "no keys": (["split", "nope.txt"], "nope.txt"),
    "no scheme": (["split", "good file.csv", "--scheme", "pkgg"], "did you mean 'pkg'"),
    "no workers": (["split", "good file.csv", "--workers", "0"], "workers, got 0"),
    "too many choices": (["split", "good file.csv", "--scheme", "greedy-d", "--choices", "99999999999"], "choices"),
    "too many sources": (["split", "good file.csv", "--sources", "9" * 30], "sources"),
    "no estimate": (["split", "good file.csv", "--estimate", "guess"], "one of global, local, probed"),
    "no benchmark": (["bench", "nope"], "nope"),
    "no benchmark among all": (["bench", "all", "--only", "nope"], "nope"),
    "minutes below zero": (["bench", "soak", "--minutes", "-1"], "minutes"),
    "no paper": (["paper", "nope"], "nope"),
    "nothing to simulate": (["simulate", "nope"], "nothing of that name to simulate"),
    "no machines": (["simulate", "flux", "--nodes", "0", "--loaded", "0"], "0"),
    "no routing": (["simulate", "flux", "--routing", "nope"], "nope"),
    "no seed": (["simulate", "flux", "--seed", "-1"], "--seed"),
    "words for channels": (["simulate", "scale", "--channels", "x"], "x"),
    "nobody to compare": (["simulate", "kafka", "--contenders", ""], "nobody to compare"),
    "plots in a file": (["simulate", "flux", "--out", "good file.csv"], "plots need a folder"),
    "no port": (["kafka", "up", "--port", "99999999"], "at most 65535"),
    "no command of kafka": (["kafka", "upp"], "upp"),
    "no broker": (["kafka", "gateway", "--source", "rate", "--key", "value", "--topic", "t"], "unskew kafka up"),
    "no share": ([*GATEWAY, "--share", "3/2"], "expected I/N"),
    "no planner of the gateway": ([*GATEWAY, "--planner", "smalop"], "did you mean 'smalops'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_line_that_says_what(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments, message = WRONG[name]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert ended.value.code == 2
    assert message in " ".join(told.err.split()), told.err
    assert "Traceback" not in told.err + told.out
    assert sorted(tmp_path.rglob("*")) == before, "nothing is written"


def test_an_error_of_the_system_is_one_line_and_one_object(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise PermissionError(13, "Permission denied", "/data/rows.csv")

    monkeypatch.setattr(cli, "app", fail)
    for arguments in (["plan"], ["plan", "--json"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 2
    told = capsys.readouterr()
    assert "Permission denied (in /data/rows.csv). Hint: check that the path is right" in " ".join(told.err.split())
    assert json.loads(told.err.splitlines()[-1])["where"] == "/data/rows.csv"
    with pytest.raises(PermissionError):
        main(["plan", "--debug"])


def test_ctrl_c_is_told_by_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--json"])
    assert ended.value.code == 130
