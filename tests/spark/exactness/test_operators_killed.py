"""Every operator gives the rows of an undisturbed run, although its process is killed in the middle."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.testing import write_batches

sys.path.insert(0, str(Path(__file__).parent))

from kills import _kill, longest_wait

JOB = Path(__file__).parent / "operators_job.py"
START = datetime(2024, 1, 1, tzinfo=UTC)
BATCHES, ROWS = 4, 400


def drawn() -> Iterator[pa.Table]:
    """Give batches whose times overlap, and last ones that let all time pass."""
    rng = np.random.default_rng(0)
    for batch in range(BATCHES + 2):
        rows, start = (ROWS, 20.0 * batch) if batch < BATCHES else (1, 86_400.0 * batch)
        seconds = start + rng.uniform(-15, 20, rows).clip(-start)
        keys = rng.zipf(1.5, rows) % 40
        yield pa.table(
            {
                "key": pa.array([None if k == 5 else f"k{k}" for k in keys.tolist()], pa.string()),
                "at": pa.array([START + timedelta(seconds=float(s)) for s in seconds], pa.timestamp("us", "UTC")),
                "id": np.arange(rows) + ROWS * batch,
                "word": [f"w{k}" for k in (rng.zipf(1.4, rows) % 30).tolist()],
                "label": ["xy"[k] for k in rng.integers(0, 2, rows).tolist()],
            }
        )


def run(home: Path, master: str, names: tuple[str, ...], kill: bool) -> dict[str, int]:
    """Run the job until it ends by itself, killed once in every query; return how many batches each had then."""
    dice, spared, killed = random.Random(1), list(names) if kill else [], dict[str, int]()
    while True:
        with (home / "log").open("a") as log:
            job = subprocess.Popen(
                [sys.executable, str(JOB), str(home), master, *names], stdout=log, stderr=log, start_new_session=True
            )
        wanted = dice.randint(1, BATCHES - 1)
        while job.poll() is None:
            if spared and committed(home, spared[0]) >= wanted:
                time.sleep(dice.uniform(0, longest_wait(home / "checkpoints" / spared[0] / "commits")))
                _kill(job.pid)
                job.wait()
                killed[spared[0]] = committed(home, spared[0])
                del spared[0]
            time.sleep(0.1)
        if job.returncode == 0:
            return killed
        assert job.returncode == -signal.SIGKILL, (home / "log").read_text()[-3000:]


def committed(home: Path, name: str) -> int:
    """Return how many batches a query has committed."""
    return sum(path.name.isdigit() for path in (home / "checkpoints" / name / "commits").glob("*"))


def result(home: Path, name: str) -> list[str]:
    """Return all rows, or of running totals the last of each key."""
    folders = sorted((home / "out" / name).glob("batch_id=*"), key=lambda path: int(path.name.split("=")[1]))
    rows = [row for folder in folders for row in pq.read_table(folder, partitioning=None).to_pylist()]
    if name.endswith("-totals"):
        rows = list({next(iter(row.values())): row for row in rows}.values())
    return sorted(map(repr, rows))


GROUPS = {
    "windows": ("tumbling", "sliding", "sessions"),
    "joins": ("self-join", "interval-join", "table-join"),
    "rows": ("sort", "history"),
    "aggregates": ("aggregates-totals", "hitters-totals", "histogram-totals"),
    "combined": ("combined-totals", "combined-moves-totals"),
    "learners": ("bayes-totals", "tree-rounds"),
    "answers": ("heaviest-rounds", "bayes-answers"),
}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_killed_operators_give_what_an_undisturbed_run_gives(tmp_path: Path, group: str) -> None:
    homes, names, master = {name: tmp_path / name for name in ("calm", "rough")}, GROUPS[group], "local[2,4]"
    for home in homes.values():
        write_batches(home / "data", drawn())
    run(homes["calm"], master, names, kill=False)
    killed = run(homes["rough"], master, names, kill=True)
    for name in names:
        assert 0 < killed[name] < committed(homes["calm"], name), f"{name} was killed in the middle"
        calm, rough = (result(home, name) for home in homes.values())
        assert calm, name
        assert rough == calm, name
