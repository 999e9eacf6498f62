from __future__ import annotations

import json
from pathlib import Path

import pytest

from unskew_lab.experiments.gedik import Gedik, run_trial, trials
from unskew_lab.experiments.gedik.grid import Trial

FIGURES = {"3", "4", "5", "6", "7a", "7b", "8", "9", "10", "11", "12", "13", "14"}


def test_the_quick_grid_is_smaller_than_the_full_one_and_has_no_trial_twice() -> None:
    quick, full = trials(quick=True), trials(quick=False)
    assert len(quick) < len(full)
    assert len(set(quick)) == len(quick)
    assert {t.method for t in quick} == {t.method for t in full}


def test_a_table_balances_better_than_the_ring_and_moves_less_than_plain_hashing() -> None:
    measured = {
        method: run_trial(Trial(method=method, channels=6, keys=20_000, resources="LLL"))
        for method in ("ring", "uniform", "scan")
    }
    balance, migration = ({m: v[name][-1] for m, v in measured.items()} for name in ("b", "m"))
    assert balance["scan"] < balance["ring"]
    assert migration["scan"] < migration["uniform"]


@pytest.mark.spark
@pytest.mark.slow
def test_every_claim_of_the_paper_has_a_verdict(spark, tmp_path: Path) -> None:
    claims = Gedik().run(spark, tmp_path, quick=True)
    assert {claim.figure for claim in claims} >= FIGURES
    assert len({claim.id for claim in claims}) == len(claims)
    assert all(claim.verdict in ("confirmed", "refuted", "not comparable") for claim in claims)
    assert all(claim.reason for claim in claims if claim.verdict != "confirmed")
    assert len(json.loads((tmp_path / "claims.json").read_text())) == len(claims)
    assert list(tmp_path.rglob("*.png"))
