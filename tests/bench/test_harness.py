from __future__ import annotations

import json
import statistics
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew import __version__, machine
from unskew.errors import ArgumentError
from unskew_lab.bench import Benchmark, Row, Timing, benchmarks, interleave, report, store


def test_met_follows_the_direction():
    assert Row("speed", "unskew", 100.0, "M/s", target=100.0).met is True
    assert Row("speed", "unskew", 99.9, "M/s", target=100.0).met is False
    assert Row("time", "unskew", 50.0, "ms", target=50.0, better="lower").met is True
    assert Row("time", "unskew", 50.1, "ms", target=50.0, better="lower").met is False
    assert Row("time", "unskew", 50.1, "ms", better="lower").met is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30))
def test_timing_has_the_median_and_the_interquartile_range(samples):
    timing = Timing.of(samples)
    ordered = sorted(samples)

    def quantile(share):
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (place - low) * (ordered[high] - ordered[low])

    assert timing.median_seconds == pytest.approx(statistics.median(samples))
    assert timing.spread_seconds == pytest.approx(quantile(0.75) - quantile(0.25), abs=1e-6)
    assert timing.samples == tuple(samples)


def test_contenders_take_turns_and_warm_up_is_not_counted():
    calls = []
    ticks = iter(range(1000))
    contenders = {name: lambda name=name: calls.append(name) for name in "abc"}
    times = interleave(contenders, repeats=2, warmup=1, clock=lambda: float(next(ticks)))
    assert calls == ["c", "b", "a", "a", "b", "c", "c", "b", "a"]
    assert list(times) == ["a", "b", "c"]
    assert all(timing.samples == (1.0, 1.0) for timing in times.values())


def test_no_repeats_are_refused():
    with pytest.raises(ArgumentError, match="at least one repeat"):
        interleave({"a": lambda: None}, repeats=0)


def test_a_failing_contender_leaves_the_collector_on():
    import gc

    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interleave({"a": fail})
    assert gc.isenabled()


def test_report_has_exactly_the_agreed_form():
    rows = [
        Row("hash", "unskew", 120.0, "M/s", ratio=2.5, target=100.0),
        Row("hash", "numpy", 48.0, "M/s"),
    ]
    result = json.loads(json.dumps(report("routing", rows)))
    assert list(result) == ["benchmark", "commit", "machine", "rows"]
    assert result["benchmark"] == "routing"
    fields = ["name", "contender", "value", "unit", "ratio", "target", "met"]
    assert [list(row) for row in result["rows"]] == [fields, fields]
    assert list(result["rows"][0].values()) == ["hash", "unskew", 120.0, "M/s", 2.5, 100.0, True]
    assert list(result["rows"][1].values()) == ["hash", "numpy", 48.0, "M/s", None, None, None]


def test_the_file_has_spread_samples_and_configuration_too(tmp_path):
    class Example(Benchmark):
        summary = "none"

        def run(self, quick):
            self.note("nobody else came")
            return [Row("batch", "unskew", 3.0, "s", better="lower", samples=(5.0, 1.0, 2.0, 3.0, 4.0))]

    Example.name = "example"
    record = store.measure(Example(), quick=True)
    path = store.place("example", quick=True, folder=tmp_path)
    store.save(record, path)
    assert path == tmp_path / machine.commit() / "example-quick.json"
    assert store.load(path) == record
    assert (record["quick"], record["notes"]) == (True, ["nobody else came"])
    [row] = record["rows"]
    assert (row["spread"], row["samples"], row["better"]) == (2.0, [5.0, 1.0, 2.0, 3.0, 4.0], "lower")
    agreed = store.printed(record)
    assert list(agreed) == ["benchmark", "commit", "machine", "rows"]
    assert list(agreed["rows"][0]) == ["name", "contender", "value", "unit", "ratio", "target", "met"]


def test_what_json_printed_can_be_loaded(tmp_path):
    path = tmp_path / "printed.json"
    store.save(report("routing", [Row("hash", "numpy", 48.0, "M/s")]), path)
    assert store.load(path)["rows"][0]["spread"] is None
    path.write_text('{"benchmark": "routing"}')
    with pytest.raises(ArgumentError, match="not a result of unskew bench"):
        store.load(path)


def test_the_machine_is_described():
    described = machine.describe()
    assert set(described) == {"cores", "cpu", "memory_bytes", "system", "python", "packages"}
    assert {"pyspark", "numpy", "numba"} <= set(described["packages"])


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def test_commit_is_that_of_the_code_and_dirty_after_a_change(tmp_path, monkeypatch):
    code = tmp_path / "machine.py"
    code.write_text("a = 1\n")
    monkeypatch.setattr(machine, "__file__", str(code))
    assert machine.commit() == __version__  # no checkout at all
    git(tmp_path, "init", "-q")
    (tmp_path / "other.txt").write_text("other\n")
    git(tmp_path, "add", "other.txt")
    git(tmp_path, "commit", "-q", "-m", "other")
    assert machine.commit() == __version__  # in somebody else's checkout
    git(tmp_path, "add", "machine.py")
    git(tmp_path, "commit", "-q", "-m", "code")
    revision = git(tmp_path, "rev-parse", "HEAD")
    assert machine.commit() == revision[:12]
    code.write_text("a = 2\n")
    assert machine.commit() == f"dirty-{revision[:12]}"


def test_a_benchmark_registers_itself_by_its_name():
    class Example(Benchmark):
        name = "example-of-the-tests"
        summary = "none"

        def run(self, quick):
            return []

    try:
        assert benchmarks["example-of-the-tests"] is Example
        with pytest.raises(ArgumentError, match="did you mean 'example-of-the-tests'"):
            benchmarks["example-of-the-test"]
    finally:
        benchmarks._members.pop("example-of-the-tests")
