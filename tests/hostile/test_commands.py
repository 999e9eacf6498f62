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


STARTS = (
    "unskew.spark.session",
    "unskew_lab.bench.store.measure",
    "unskew_lab.bench.suite.run_each",
    "unskew_lab.demo.run.run",
    "unskew_lab.simulation.simulate",
    "unskew_lab.simulation.queueing.topic.Topic.arrivals",
    "unskew_lab.simulation.study.Study.run",
)
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
    "a file without keys": (["split", "empty.csv"], "there are no rows (in empty.csv). Hint: give a text file"),
    "a folder without keys": (["split", "folder.csv"], "there are no rows (in folder.csv). Hint: give a text file"),
    "no scheme": (["split", "good file.csv", "--scheme", "pkgg"], "did you mean 'pkg'"),
    "no workers": (["split", "good file.csv", "--workers", "0"], "workers, got 0"),
    "too many choices": (["split", "good file.csv", "--scheme", "greedy-d", "--choices", "99999999999"], "choices"),
    "too many sources": (["split", "good file.csv", "--sources", "9" * 30], "sources"),
    "no estimate": (["split", "good file.csv", "--estimate", "guess"], "one of global, local, probed"),
    "no benchmark": (["bench", "nope"], "nope"),
    "no benchmark among all": (["bench", "all", "--only", "nope"], "nope"),
    "minutes below zero": (["bench", "soak", "--minutes", "-1"], "at least 0.05, got -1.0 (in --minutes)"),
    "no minutes": (["bench", "soak", "--minutes", "0"], "at least 0.05, got 0.0 (in --minutes)"),
    "minutes that are no number": (["bench", "soak", "--minutes", "nan"], "got nan (in --minutes)"),
    "minutes without end": (["bench", "soak", "--minutes", "inf"], "got inf (in --minutes)"),
    "minutes of another benchmark": (["bench", "skew", "--minutes", "3"], "has no such option, got 3.0"),
    "minutes of all": (["bench", "all", "--minutes", "3"], "an option of one benchmark, got 3.0 (in --minutes)"),
    "one benchmark among one": (["bench", "skew", "--only", "race"], "works with all alone"),
    "no case": (["bench", "load", "--case", "x"], "no such case, got 'x' (in --case)"),
    "a page of another kind": (["bench", "skew", "--page", "nope.txt"], "end its name in .html or .md"),
    "a page in a file": (["bench", "skew", "--page", "good file.csv/a.md"], "got 'good file.csv' (in --page)"),
    "a second page": (["bench", "all", "--page", "a.md", "--page", "b.txt"], "got 'b.txt' (in --page)"),
    "a result in a file": (["bench", "skew", "--out", "good file.csv/a.json"], "got 'good file.csv' (in --out)"),
    "a result for a folder": (["bench", "skew", "--out", "folder.csv"], "this is a folder, not a file"),
    "results in a file": (["bench", "all", "--out", "good file.csv"], "this is a file, not a folder"),
    "no paper": (["paper", "nope"], "nope"),
    "a paper in a file": (["paper", "flux", "--out", "good file.csv"], "this is a file, not a folder"),
    "a paper below a file": (["paper", "flux", "--out", "good file.csv/x"], "got 'good file.csv' (in --out)"),
    "a paper's page of another kind": (["paper", "flux", "--page", "page.md"], "end its name in .html"),
    "a demo in a file": (["demo", "--out", "good file.csv/demo.html"], "got 'good file.csv' (in --out)"),
    "nothing to simulate": (["simulate", "nope"], "nothing of that name to simulate"),
    "no machines": (["simulate", "flux", "--nodes", "0", "--loaded", "0"], "0"),
    "no routing": (["simulate", "flux", "--routing", "nope"], "nope"),
    "no seed": (["simulate", "flux", "--seed", "-1"], "--seed"),
    "less than no buffer": (["simulate", "flux", "--buffer", "-1"], "at least 0, got -1 (in --buffer)"),
    "less than no load": (["simulate", "flux", "--loaded", "-1"], "at least 0, got -1 (in --loaded)"),
    "less than no squeeze": (["simulate", "flux", "--squeezed", "-1"], "at least 0, got -1 (in --squeezed)"),
    "seconds without end": (["simulate", "flux", "--seconds", "inf"], "got inf (in --seconds)"),
    "no collection": (["simulate", "flux", "--collection", "nan"], "got nan (in --collection)"),
    "consumers too busy": (["simulate", "kafka", "--utilisation", "2"], "at most 1, got 2.0 (in --utilisation)"),
    "keys that shift back": (["simulate", "kafka", "--shift", "-1"], "at least 0, got -1 (in --shift)"),
    "no time for a message": (["simulate", "kafka", "--service-us", "0"], "got 0.0 (in --service-us)"),
    "nobody to compare with": (["simulate", "kafka", "--contenders", "smalops,x"], "no such way of routing, got 'x'"),
    "words for channels": (["simulate", "scale", "--channels", "x"], "x"),
    "channels without end": (["simulate", "scale", "--channels", "inf"], "whole numbers"),
    "one channel": (["simulate", "scale", "--channels", "10,1"], "two channels or more"),
    "more channels than keys": (["simulate", "scale", "--keys", "5"], "fewer keys than channels, got 5 (in --keys)"),
    "no planner to study": (["simulate", "scale", "--planners", "mixed,mixxed"], "did you mean 'mixed'"),
    "nobody to compare": (["simulate", "kafka", "--contenders", ""], "nobody to compare"),
    "plots in a file": (["simulate", "flux", "--out", "good file.csv"], "this is a file, not a folder"),
    "no port": (["kafka", "up", "--port", "99999999"], "at most 65535"),
    "no command of kafka": (["kafka", "upp"], "upp"),
    "no broker": (["kafka", "gateway", "--source", "rate", "--key", "value", "--topic", "t"], "unskew kafka up"),
    "no share": ([*GATEWAY, "--share", "3/2"], "expected I/N"),
    "an interval below zero": ([*GATEWAY, "--interval", "-1"], "at least 0, got -1.0 (in --interval)"),
    "an interval that is no number": ([*GATEWAY, "--interval", "nan"], "got nan (in --interval)"),
    "no partitions": ([*GATEWAY, "--partitions", "0"], "at least 1, got 0 (in --partitions)"),
    "no stamp": ([*GATEWAY, "--stamp", "some"], "got 'some' (in --stamp). Hint: one of none, moved, all"),
    "no batches": ([*GATEWAY, "--batches", "0"], "at least 1, got 0 (in --batches)"),
    "two orders": ([*GATEWAY, "--keyed-source", "--order-by", "timestamp"], "exclude each other"),
    "no partitions and no broker": ([*GATEWAY[:-2], "--partitions", "0"], "at least 1, got 0 (in --partitions)"),
    "no planner of the gateway": ([*GATEWAY, "--planner", "smalop"], "did you mean 'smalops'"),
}


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark, measurements and simulations fail where they would begin."""

    def begun(*_: object, **__: object) -> None:
        raise AssertionError("this begins before all options are checked")

    for name in STARTS:
        monkeypatch.setattr(name, begun)


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("nothing_starts")
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
