"""The coarse study: loads that add up, by a slow count of the same keys."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew_lab.simulation.study import SLOW, Study, _mix, planners_of_the_study


def test_every_key_counts_once_in_its_slot_or_by_itself():
    study = Study(channels=4, keys=3000, tracked=100, exponent=0.7, heaviest=99.0)
    first = study.statistics()[0]
    weights = np.arange(1, 3001) ** -0.7
    expected = 1e9 * weights / weights.sum()
    names = _mix(np.arange(3000))
    by_hash = dict(zip(names.tolist(), expected.tolist(), strict=True))
    assert first.total_cost == pytest.approx(1e9)
    assert first.cost == pytest.approx([by_hash[h] for h in first.hashes.tolist()])
    slots = np.bincount(names[100:] % 256, expected[100:], 256)
    assert first.slot_cost == pytest.approx(slots)


def test_no_key_is_heavier_than_wanted():
    for report in Study(channels=50, keys=100_000, heaviest=0.5).statistics():
        assert report.cost.max() == pytest.approx(0.5 * report.total_cost / 50)


def test_drift_changes_who_is_hot_and_not_how_hot():
    first, second, *_ = Study(channels=4, keys=100_000, drift=0.1).statistics()
    assert np.sort(first.cost) == pytest.approx(np.sort(second.cost))
    stayed = np.isin(first.hashes, second.hashes).mean()
    assert 0.85 < stayed < 0.95


def test_planners_balance_what_hashing_does_not():
    points = {p.planner: p for p in Study(channels=40, keys=200_000).run(planners_of_the_study())}
    assert set(points) == set(planners_of_the_study())
    for name in ("mixed", "readj", "simple", "flux-load"):
        assert points[name].imbalance < points["consistent"].imbalance
    assert points["hash"].migrated_share == points["consistent"].migrated_share == 0
    assert points["flux-load"].table_size == 0 < points["mixed"].table_size


def test_planners_that_are_too_slow_are_left_out():
    slowest = min(SLOW, key=lambda name: SLOW[name])
    assert Study(channels=SLOW[slowest] + 1, keys=1000).run([slowest]) == []


@pytest.mark.slow
def test_a_thousand_channels_and_a_hundred_million_keys():
    (point,) = Study(channels=1000, keys=10**8, intervals=2).run(["flux-load"])
    assert point.imbalance > 0


@pytest.mark.parametrize("wrong", [{"channels": 1}, {"keys": 2}, {"intervals": 1}])
def test_sizes_that_make_no_study_are_refused(wrong):
    with pytest.raises(ArgumentError):
        Study(**{"channels": 4, "keys": 1000, **wrong})
