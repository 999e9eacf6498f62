"""Every operator gives the rows of an undisturbed run, although its process is killed in the middle."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.testing import write_batches

sys.path.insert(0, str(Path(__file__).parent))

from kills import committed, run_queries

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
    "processors": ("visits",),
    "answers": ("heaviest-rounds", "bayes-answers"),
}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS)
def test_killed_operators_give_what_an_undisturbed_run_gives(tmp_path: Path, group: str) -> None:
    homes, names, master = {name: tmp_path / name for name in ("calm", "rough")}, GROUPS[group], "local[2,4]"
    for home in homes.values():
        write_batches(home / "data", drawn())
    run_queries(JOB, homes["calm"], master, names, BATCHES - 1, kill=False)
    killed = run_queries(JOB, homes["rough"], master, names, BATCHES - 1, kill=True)
    for name in names:
        assert 0 < killed[name] < committed(homes["calm"], name), f"{name} was killed in the middle"
        calm, rough = (result(home, name) for home in homes.values())
        assert calm, name
        assert rough == calm, name
