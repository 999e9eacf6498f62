from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.pkg import Pkg, run_trial, trials
from unskew_lab.experiments.pkg.grid import Trial
from unskew_lab.experiments.pkg.results import Results
from unskew_lab.experiments.pkg.trial import DAYS, edge_sources, stream_of

CLAIMS = {  # the specification's, by its own names
    "t2a": "Table 2", "t2b": "Table 2", "t2c": "Table 2", "t2d": "Table 2",
    "f4a": "4", "f4b": "4", "f4c": "4", "f5a": "5", "f5b": "5", "f5c": "5", "agreement": "text", "f6": "6",
    "f7a": "7", "f7b": "7", "f7c": "7", "f8": "8", "f9a": "9", "f9b": "9",
    "f10a": "10a", "mem": "text", "f10b": "10b", "f10c": "10c", "t3a": "Table 3", "t3b": "Table 3", "t3c": "Table 3",
}  # fmt: skip
SMALL = Trial(figure="4", data="zipf", exponent=1.0, keys=1_000, messages=20_000, workers=(5, 20), seeds=3)


def test_the_quick_grid_is_small_and_has_no_trial_twice():
    quick, full = trials(quick=True), trials(quick=False)
    assert len(quick) < len(full)
    assert len(set(quick)) == len(quick)
    assert len(set(full)) == len(full)
    assert {t.figure for t in quick} == {t.figure for t in full}
    assert sum(t.messages * t.seeds for t in full) > 5 * sum(t.messages * t.seeds for t in quick)
    assert all(t.seeds >= 5 for t in full if t.scheme not in ("off-greedy", "on-greedy") and t.figure != "memory")


def test_a_trial_measures_every_number_of_workers_and_every_family_of_hashes():
    measures = run_trial(SMALL)
    assert {len(values) for values in measures.values()} == {6}
    results = Results([(SMALL, measures)])
    where = {"figure": "4", "data": "zipf", "exponent": 1.0, "keys": 1_000}
    assert results.runs("end", 20, **where) == measures["end"][3:]
    assert results.value("end", 5, **where) == np.median(measures["end"][:3])
    single = run_trial(replace(SMALL, workers=(20,), seeds=1))
    assert single["end"] == measures["end"][3:4]


def test_the_fractions_are_those_of_the_definition():
    """Key grouping of one key: I(t) = t (1 - 1/W), so the average is half of the end."""
    measures = run_trial(replace(SMALL, keys=1, scheme="key", workers=(4,), seeds=1))
    assert measures["end"] == [0.75]
    assert measures["relative"] == pytest.approx([0.75])
    assert measures["average"] == pytest.approx([0.375], rel=0.01)


def test_cashtags_drift_over_four_weeks_and_edges_have_two_ends():
    stream = stream_of("ct", 0.0, 0, 28_000)
    first, last = (np.unique(week, return_counts=True) for week in (stream[:7_000], stream[-7_000:]))
    assert len(stream) == 28_000 // DAYS * DAYS
    assert first[0][first[1].argmax()] != last[0][last[1].argmax()]
    assert len(edge_sources(0.7, 100, 1_000)) == 1_000


def test_agreement_curves_and_counters_are_measured_where_they_are_needed():
    assert 0.3 < run_trial(replace(SMALL, figure="6", seeds=1))["equal"][0] < 1
    assert len(run_trial(replace(SMALL, figure="5", estimate="probed", probes=10, seeds=2))["curve 20"]) == 50
    assert run_trial(replace(SMALL, figure="memory", scheme="key", seeds=1))["counters"][0] <= 1_000


@pytest.mark.spark
@pytest.mark.slow
def test_every_claim_of_the_specification_has_a_verdict(spark, tmp_path: Path):
    claims = Pkg().run(spark, tmp_path, quick=True)
    found = {claim.id: claim for claim in claims}
    assert len(found) == len(claims)
    for name, figure in CLAIMS.items():
        matching = [claim for id, claim in found.items() if id == name or id.startswith(f"{name}-")]
        assert matching, name
        assert {claim.figure for claim in matching} == {figure}
    assert all(found[id].verdict == "confirmed" for id in ("t2c", "t2d", "f4a", "f7c", "f8", "mem"))
    assert [Claim(**each) for each in json.loads((tmp_path / "claims.json").read_text())] == claims
    assert json.loads((tmp_path / "claims.json").read_text())
    assert len(list(tmp_path.glob("*.png"))) == 7
