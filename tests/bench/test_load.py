from __future__ import annotations

import json
import sys

import pytest

from unskew.errors import ArgumentError, BatchError, StateError
from unskew_lab.bench import benchmarks, load
from unskew_lab.bench.load import FAILS, STOPS, WORKS, Outcome, judged, table
from unskew_lab.bench.load_cases import CASES, Case

PROMISED = {
    "faster than the job", "10 million rows", "10 million keys", "rows of 1 MB", "a key with 100 MB",
    "1,000 channels", "state 10 x memory",
}  # fmt: skip


def test_every_promised_case_is_there():
    assert set(CASES) >= PROMISED


def test_an_unknown_case_is_refused_with_a_hint():
    with pytest.raises(ArgumentError, match="did you mean '1,000 channels'"):
        benchmarks["load"]().choose(case="1000 channels")


def test_options_belong_to_one_benchmark():
    with pytest.raises(ArgumentError, match="no such option"):
        benchmarks["load"]().choose(minutes=3)
    benchmarks["routing"]().choose(minutes=None, case=None)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (BatchError("the batch is too large", hint="lower maxFilesPerTrigger"), STOPS),
        (RuntimeError("Traceback ...\nunskew.errors.BatchError: too large. Hint: smaller batches.\n at java"), STOPS),
        (RuntimeError("java.lang.OutOfMemoryError: Java heap space"), FAILS),
        (StateError("the result is not Spark's own", hint="it should be 3"), FAILS),
        (RuntimeError(), FAILS),
    ],
)
def test_only_an_error_with_a_hint_is_clear(error, verdict):
    assert judged(error)[0] == verdict


def test_the_table_has_a_line_for_each_case():
    made = table(
        [Outcome("rows of 1 MB", WORKS, "a function", 2_000, 2, 12.5, 300_000_000, 2_000_000_000, 900_000_000)]
    )
    line = ["rows of 1 MB", "2,000", "2", "12.5", "300", "2,000", "900", "works: a function"]
    assert made["rows"] == [line]
    assert len(made["headings"]) == len(line)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("code", "minutes", "detail"),
    [
        ("import sys; sys.exit('killed')", 1, "killed"),
        ("import time; time.sleep(60)", 0.01, "took more than 0 minutes"),
        ("held = b'x' * 200_000_000; import time; time.sleep(60)", 1, "of memory"),
    ],
)
def test_a_case_that_dies_hangs_or_takes_too_much_memory_fails(monkeypatch, code, minutes, detail):
    monkeypatch.setitem(CASES, "bad", Case(lambda run: "", 1, minutes))
    monkeypatch.setattr(load, "arguments", lambda name, folder, quick: [sys.executable, "-c", code])
    monkeypatch.setattr(load, "memory_bytes", lambda: 200_000_000)
    outcome = load.in_a_process("bad", quick=True)
    assert outcome.verdict == FAILS
    assert detail in outcome.detail


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_small_versions_work(name):
    outcome = load.in_a_process(name, quick=True)
    assert outcome.verdict in (WORKS, STOPS), outcome.detail
    assert outcome.jvm_bytes > 100_000_000
    assert json.dumps(table([outcome]))
