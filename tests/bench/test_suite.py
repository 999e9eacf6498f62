from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

from unskew_lab.bench import Row, benchmarks, report, suite
from unskew_lab.bench.suite import expected_seconds, run_each

PROMISED = {"routing", "state", "planners", "splitters", "operators", "migration", "skew", "race", "scale"}


def python(code):
    return lambda name, quick, out: [sys.executable, "-c", code.format(name=name, quick=quick, out=str(out))]


def shell(code):
    """A shell starts at once, also on a busy machine: these have few seconds."""
    return lambda name, quick, out: ["sh", "-c", code.format(name=name)]


def test_everything_promised_is_there_and_ends_within_twenty_minutes():
    assert set(benchmarks) >= PROMISED
    assert set(benchmarks) - set(suite.together()) == {"soak", "load", "watching"}
    assert sum(map(expected_seconds, suite.together())) < suite.QUICK_SECONDS < 20 * 60


def test_the_command_is_that_of_one_benchmark(tmp_path):
    arguments = suite.command("routing", True, tmp_path / "r.json")
    assert arguments[1:] == ["-m", "unskew", "bench", "routing", "--quick", "--out", str(tmp_path / "r.json")]
    assert "--quick" not in suite.command("routing", False, tmp_path / "r.json")


def test_records_come_in_order():
    written = json.dumps(report("NAME", [Row("a", "b", 1.0, "s")])).replace("NAME", "' + '{name}' + '")
    code = (
        "open('{out}', 'w').write('"
        + written.replace("{", "{{").replace("}", "}}").replace("{{name}}", "{name}")
        + "')"
    )
    records = list(run_each(["one", "two"], quick=True, run=python(code)))
    assert [record["benchmark"] for record in records] == ["one", "two"]
    assert records[0]["rows"][0]["value"] == 1.0


def test_a_failure_is_told_and_the_next_one_runs():
    code = "import sys; sys.exit('no Spark for {name}')"
    records = list(run_each(["one", "two"], quick=True, run=python(code)))
    assert [record["rows"] for record in records] == [[], []]
    assert "no Spark for two" in records[1]["notes"][0]


def test_each_may_take_what_is_left_but_for_what_the_others_are_expected_to_take():
    expected = {"first": 0.0, "slow": 0.0, "last": 96.0}
    run = shell("[ {name} != slow ] || sleep 100")
    records = list(run_each(list(expected), quick=True, seconds=100, expected=expected.__getitem__, run=run))
    reasons = [record["notes"][0] for record in records]
    assert ["exit code 0" in reason for reason in reasons] == [True, False, True]
    seconds = re.search(r"did not end within (\d+) seconds", reasons[1])
    assert 0 <= int(seconds[1]) <= 4


def test_one_that_does_not_end_is_stopped_with_what_it_started(tmp_path):
    child = tmp_path / "child"
    [record] = run_each(["slow"], quick=True, seconds=2.0, run=shell(f"sleep 300 & echo $! > '{child}'; wait"))
    assert "did not end within 2 seconds" in record["notes"][0]
    for _ in range(300):
        if not _alive(int(child.read_text())):
            break
        time.sleep(0.1)
    assert not _alive(int(child.read_text()))


def _alive(process):
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
