from __future__ import annotations

import dataclasses
import json
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unskew.hashing import xxhash64
from unskew.workloads import workload
from unskew_lab.experiments.fang import Fang, Results, Trial, figures, follow, run_trial, trials
from unskew_lab.experiments.fang.results import trend

CLAIMS = {
    "7a": 2,
    "7b": 2,
    "8": 6,
    "9": 7,
    "10": 4,
    "11": 4,
    "12": 5,
    "13": 3,
    "14": 6,
    "15": 4,
    "16": 2,
    "17": 2,
    "18": 2,
    "19": 2,
    "20": 2,
    "21": 1,
    "text": 6,
}
SMALL = Trial(figure="8", planner="mixed", channels=5, keys=500, intervals=8, warm_up=3)


def test_the_quick_grid_is_small_and_the_full_one_holds_it():
    quick, full = trials(quick=True), trials(quick=False)
    assert len(quick) < 200 < len(full)
    assert {t.figure for t in quick} == {t.figure for t in full}
    assert len(set(quick)) == len(quick)
    assert len(set(full)) == len(full)


def test_hashing_alone_is_measured_as_the_stream_has_it():
    trial = dataclasses.replace(SMALL, planner="consistent", warm_up=0)
    measures = follow(trial)
    drift = workload("fluctuation", base="zipf", exponent=0.85, keys=500, rate=1.0, channels=5)
    home = np.mod(xxhash64([pa.array(np.arange(500))]), 5)
    for interval, overload in enumerate(measures["overload_after"]):
        loads = np.bincount(home, drift.probabilities(interval), 5)
        assert overload == pytest.approx(loads.max() / loads.mean() - 1)
    assert measures["migration_share"] == [0.0] * 8
    assert sum(measures["sorted_loads"]) == pytest.approx(5)


def test_mixed_keeps_the_tolerance_in_every_interval():
    measures = follow(SMALL)
    assert len(measures["overload_after"]) == 5
    assert max(measures["overload_after"]) <= 0.08 + 1e-9
    assert min(measures["overload_before"]) > 0.08
    assert max(measures["table_size"]) <= 3000


def test_a_trial_is_repeatable_but_for_the_time():
    first, second = follow(SMALL), follow(SMALL)
    for name in first:
        if not name.endswith("seconds"):
            assert first[name] == second[name]


def test_compact_trials_report_records_and_error():
    measures = follow(dataclasses.replace(SMALL, degree=3, figure="11"))
    assert max(measures["records"]) < 500
    assert 0 <= max(measures["load_error"]) < 0.2


def test_theorems_are_counted():
    measures = run_trial(Trial(figure="theorems", planner="mixed", intervals=60))
    assert measures["instances"] == [60]
    assert measures["theorem_1"] == measures["theorem_2_fallback"] == measures["theorem_4_fallback"] == [0]
    assert measures["theorem_2"][0] > 0
    assert measures["theorem_4"][0] > 0


@pytest.mark.parametrize(
    ("curve", "expected"),
    [({1: 5.0, 2: 6.0, 3: 9.0}, 1), ({1: 5.0, 2: 4.0}, -1), ({1: 5.0, 2: 5.0}, 0), ({1: 1.0, 2: 3.0, 3: 2.0}, 0.5)],
)
def test_trend_is_a_rank_correlation(curve, expected):
    assert trend(curve) == pytest.approx(expected)


STATEMENTS = ("theorem_1", "theorem_2", "theorem_2_fallback", "theorem_4", "theorem_4_fallback", "table", "migration")


def as_the_paper_says(trial: Trial) -> dict[str, list[float]]:
    """Return measures with which every claim holds."""
    if trial.figure == "theorems":
        return {"instances": [9.0]} | {name: [0.0] for name in (*STATEMENTS, "deviation_zipf", "deviation_equal")}
    spread = 2.5 + (trial.channels - 40) / 100 if trial.figure == "7a" else 4 - np.log10(trial.keys / 5000)
    needed = (60 if trial.channels == 15 else 150) / max(trial.tolerance, 0.001)
    degenerate = trial.channels == 40 if trial.figure == "8" else trial.figure == "17" and trial.table_cap < needed
    planner = "mintable" if degenerate else trial.planner
    share = (1 - trial.tolerance) / trial.window * (1 + trial.rate) * trial.exponent
    share *= {"mintable": 3, "readj": 2}.get(planner, 1)
    seconds = 1e-3 * (1 - trial.tolerance / 10) * (0.05 if trial.degree >= 0 else 1)
    seconds *= {"readj": 50 * (1 + trial.rate), "mixedbf": 5, "mixed": 1.05}.get(trial.planner, 1)
    size = np.minimum(9350, np.arange(1, trial.intervals + 1) / max(trial.tolerance, 0.001)).tolist()
    return {
        "sorted_loads": [1.0, spread],
        "plan_seconds": [seconds],
        "records_seconds": [seconds / (2 + trial.degree)],
        "load_error": [1e-3 * (1 + trial.degree)],
        "migration_share": [share],
        "overload_after": [trial.threshold_scale],
        "table_overflow": [float(trial.table_cap < needed)],
        "table_size": size if trial.figure == "18" else [100 / min(trial.exponent, 1.5)],
    }


def contrary_to_the_paper(trial: Trial) -> dict[str, list[float]]:
    """Return measures with which no claim holds."""
    if trial.figure == "theorems":
        return {name: [1.0] for name in as_the_paper_says(trial)}
    spread = 9 - trial.channels / 10 if trial.figure == "7a" else 5 * np.log10(trial.keys)
    share = (1 + trial.tolerance) * trial.window**2 / trial.exponent
    share *= {"mixed": 2 + trial.rate, "mixedbf": 9, "readj": 0.1}.get(trial.planner, 1)
    seconds = {"readj": 0.1 / (1 + trial.rate), "mixedbf": 0.1, "mixed": 1 + trial.tolerance}.get(trial.planner, 1)
    if trial.planner == "mintable":
        seconds = 0.1 if trial.tolerance >= 0.2 else 9
    return {
        "sorted_loads": [1.0, spread],
        "plan_seconds": [seconds * trial.keys],
        "records_seconds": [2.0 + trial.degree],
        "load_error": [1 / (2 + trial.degree)],
        "migration_share": [share],
        "overload_after": [trial.threshold_scale],
        "table_overflow": [0.0],
        "table_size": [trial.tolerance] * trial.intervals if trial.figure == "18" else [trial.exponent**2],
    }


@pytest.mark.parametrize("quick", [True, False])
def test_every_claim_can_be_confirmed_and_refuted(quick, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where no benchmark has been run
    for measure, verdict in ((as_the_paper_says, "confirmed"), (contrary_to_the_paper, "refuted")):
        judged = Fang().judge([(trial, measure(trial)) for trial in trials(quick=quick)])
        assert Counter(claim.figure for claim in judged) == CLAIMS
        assert len({claim.id for claim in judged}) == len(judged)
        for claim in judged:
            running = claim.figure in {"13", "14", "15", "16"}
            assert claim.verdict == ("not comparable" if running else verdict), claim
            assert claim.measured
            assert claim.reason or verdict == "confirmed"


def test_figures_are_drawn(tmp_path):
    rows = [(trial, as_the_paper_says(trial)) for trial in trials(quick=True)]
    drawn = figures(Results(rows), tmp_path)
    assert len(drawn) == 9
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in drawn)


@pytest.mark.slow
@pytest.mark.spark
def test_the_quick_experiments_run_as_a_spark_job(spark, tmp_path):
    judged = Fang().run(spark, tmp_path, quick=True)
    assert Counter(claim.figure for claim in judged) == CLAIMS
    assert [entry["id"] for entry in json.loads((tmp_path / "claims.json").read_text())] == [c.id for c in judged]
    results = pq.read_table(tmp_path / "results.parquet")
    assert results.num_rows == len(trials(quick=True))
    by_id = {claim.id: claim.verdict for claim in judged}
    assert by_id["theorem-1"] == by_id["fig8-3-w1"] == by_id["fig18-2"] == by_id["fig11-4"] == "confirmed"
    assert by_id["theorem-2"] == by_id["theorem-3"] == by_id["theorem-4"] == "refuted"
