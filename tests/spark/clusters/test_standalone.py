"""A checkpoint that was written on one cluster continues on another."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from unskew.testing import write_batches

HERE = Path(__file__).parent


def module(name: str):
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def submit(*arguments: object) -> dict:
    command = [sys.executable, str(HERE / "job.py"), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def check(out: Path, keys: list[np.ndarray]) -> None:
    """Every batch wrote the running count of every key it touched."""
    totals: Counter[int] = Counter()
    for batch_id, column in enumerate(keys):
        totals.update(column.tolist())
        rows = [
            json.loads(line)
            for path in (out / f"batch_id={batch_id}").glob("*.json")
            for line in path.read_text().splitlines()
        ]
        assert {row["key"]: row["n"] for row in rows} == {key: totals[key] for key in set(column.tolist())}
        assert len(rows) == len(set(column.tolist()))


@pytest.mark.spark
@pytest.mark.slow
def test_a_checkpoint_written_on_one_cluster_continues_on_another(tmp_path: Path) -> None:
    cluster = module("standalone").standalone_cluster
    keys = [np.random.default_rng(i).zipf(1.4, 2000) % 200 for i in range(6)]
    data, checkpoint, out = tmp_path / "data", tmp_path / "checkpoint", tmp_path / "out"
    tables = [pa.table({"key": column}) for column in keys]
    write_batches(data, tables[:3])
    with cluster(tmp_path / "first") as master:
        first = submit(master, data, checkpoint, out)
    write_batches(data, tables[3:], first=3)
    with cluster(tmp_path / "second") as master:
        second = submit(master, data, checkpoint, out)
    assert (first["batches"], second["batches"]) == (3, 3)
    assert first["hosts_of_blocks"] == second["hosts_of_blocks"] == 3, "the driver and an executor on each worker"
    assert first["moves"] > 0
    check(out, keys)
