"""The jobs of a collection on the same rows under Spark alone and under unskew, batch by batch.

Under unskew, keys move in every batch, and a worker is killed in the middle.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from native_jobs.collection import CASES
from native_jobs.running import Kept, Killed, calls, disturbed, run, stages
from unskew.testing import write_batches

pytestmark = pytest.mark.spark

QUICK = (
    "stock, a map",
    "many entries",
    "timers and expiry",
)
STILL = ("odd types",)  # one key in each batch, which nothing can move from


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_job_gives_the_same_rows_natively_and_balanced(rocksdb: SparkSession, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    tables = case.batches()
    death = Killed(tmp_path / "calls", at=1 + calls(case, tables) // 3)
    rows = write_batches(tmp_path / "rows", tables)
    natively, balanced = (make() for make in stages(rocksdb, rows, case, tables[0].schema, disturbed(case, death)))
    expected, found = (Kept(case, len(tables)) for _ in range(2))
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(run, natively, tmp_path / "native", expected)
        query = run(balanced, tmp_path / "ours", found)
        running.result()
    assert found.output() == expected.output()
    assert sum(map(len, expected.output().values())) >= 4
    assert death.made() > death.at, "a worker was killed in the middle"
    assert query.moves or name in STILL
