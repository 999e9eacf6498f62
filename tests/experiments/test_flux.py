from __future__ import annotations

import json
from pathlib import Path

import pytest

from unskew_lab.experiments.flux import Flux, trials
from unskew_lab.experiments.flux.grid import Trial, setup_of
from unskew_lab.experiments.flux.results import run_trial


def test_the_quick_grid_is_smaller_than_the_full_one_and_has_no_trial_twice() -> None:
    quick, full = trials(quick=True), trials(quick=False)
    assert len(quick) < len(full)
    assert len(set(quick)) == len(quick)
    assert {(t.figure, t.series) for t in quick} == {(t.figure, t.series) for t in full}
    assert {t.seed for t in full} == set(range(5))


def test_every_trial_is_a_setup_of_32_machines() -> None:
    for trial in trials(quick=False):
        setup = setup_of(trial)
        assert (setup.nodes, setup.seconds, setup.seed) == (32, trial.seconds, trial.seed)
        disturbed = len(setup.slowdowns) + len(setup.memory_changes)
        assert disturbed == trial.loaded
        assert len({s.site for s in (*setup.slowdowns, *setup.memory_changes)}) == disturbed


def test_the_loaded_machines_of_figure_8_include_the_owner_of_the_hottest_partition() -> None:
    setup = setup_of(Trial(figure="8", series="static", loaded=8, data="self-similar", seed=3))
    assert int(setup.weights().argmax()) // 64 in {slow.site for slow in setup.slowdowns}


def test_a_trial_measures_every_second() -> None:
    measures = run_trial(Trial(figure="7", series="static", x=2, loaded=2, seconds=2))
    assert len(measures["throughput"]) == len(measures["latency"]) == len(measures["on_disk"]) == 2
    assert measures["checks"] == [2.0]


@pytest.mark.spark
@pytest.mark.slow
def test_every_claim_of_the_paper_has_a_verdict(spark, tmp_path: Path) -> None:
    claims = Flux().run(spark, tmp_path, quick=True)
    assert {claim.figure for claim in claims} >= {"3", "6", "7", "8", "9", "10", "text"}
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.reason for claim in claims if claim.verdict != "confirmed")
    assert len(json.loads((tmp_path / "claims.json").read_text())) == len(claims)
    assert len(list(tmp_path.glob("*.png"))) == 8
