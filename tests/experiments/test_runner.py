from __future__ import annotations

from dataclasses import dataclass

import pyarrow.parquet as pq
import pytest

from unskew_lab.experiments.runner import run_trials


@dataclass(frozen=True)
class Trial:
    base: int
    name: str = "x"


def powers(trial):
    return {"powers": [float(trial.base**n) for n in range(3)], "length": [float(len(trial.name))]}


@pytest.mark.spark
def test_every_trial_is_measured_once_and_comes_back_in_order(spark, tmp_path):
    trials = [Trial(n, "a" * n) for n in range(40)]
    rows = run_trials(spark, trials, powers, tmp_path / "results.parquet")
    assert rows == [(trial, powers(trial)) for trial in trials]
    written = pq.read_table(tmp_path / "results.parquet")
    assert written.column_names == ["base", "name", "took_seconds", "measures"]
    assert written.column("base").to_pylist() == list(range(40))
    assert dict(written.column("measures")[3].as_py()) == powers(trials[3])
