"""Every job of the collection gives Spark's rows in every batch, although everything is killed in the middle."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from chaos.processes import kill_all, start
from native_jobs.collection import CASES
from native_jobs.running import Batches, Kept
from unskew.testing import write_batches

JOB = Path(__file__).parent / "native_jobs_job.py"
LONGEST_RUN_SECONDS = 400
IN_A_GROUP = 8
NAMES = [name for name in CASES if name != "odd types"]  # which has one key in each batch, so one call
GROUPS = [NAMES[start : start + IN_A_GROUP] for start in range(0, len(NAMES), IN_A_GROUP)]


def output(home: Path, side: str, names: list[str], number: int) -> Batches:
    """Return the batches that a query has written."""
    case = CASES[names[number]]
    kept = Kept(case, len(case.batches()))
    for path in (home / "out" / side / str(number)).glob("*.json"):
        kept.keep(int(path.stem), json.loads(path.read_text()))
    return kept.output()


def to_the_end(home: Path, side: str, names: list[str]) -> None:
    job = start(JOB, str(home), side, *names, log=home / "log")
    try:
        assert job.wait(LONGEST_RUN_SECONDS) == 0, (home / "log").read_text()[-3000:]
    finally:
        kill_all(job.pid)


def until_all_are_held(home: Path, names: list[str]) -> None:
    """Start the queries, and kill everything when each of them is in the middle of a batch."""
    job = start(JOB, str(home), "held", *names, log=home / "log")
    marks = [home / "marks" / f"{number}.held" for number in range(len(names))]
    began = time.monotonic()
    try:
        while not all(mark.exists() for mark in marks):
            missing = [name for name, mark in zip(names, marks, strict=True) if not mark.exists()]
            assert job.poll() is None, (missing, (home / "log").read_text()[-3000:])
            assert time.monotonic() - began < LONGEST_RUN_SECONDS, missing
            time.sleep(0.1)
    finally:
        kill_all(job.pid)
        job.wait()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("names", GROUPS, ids=lambda names: f"{names[0]} to {names[-1]}")
def test_killed_jobs_give_what_spark_gives_in_every_batch(tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "marks").mkdir()
    for number, name in enumerate(names):
        write_batches(tmp_path / "rows" / str(number), CASES[name].batches())
    until_all_are_held(tmp_path, names)
    to_the_end(tmp_path, "killed", names)
    to_the_end(tmp_path, "native", names)
    for number, name in enumerate(names):
        expected = output(tmp_path, "native", names, number)
        assert output(tmp_path, "ours", names, number) == expected, name
        assert sum(map(len, expected.values())) >= 4, name
        assert (tmp_path / "marks" / f"{number}.killed").stat().st_size > 2, f"{name} lost a worker"
