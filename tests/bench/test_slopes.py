from __future__ import annotations

import numpy as np
import pytest

from unskew_lab.bench.slopes import DAY, slope, slope_row


def correlated(rng, samples, alike):
    """Return noise in which each sample resembles the one before."""
    noise = rng.normal(size=samples)
    for place in range(1, samples):
        noise[place] += alike * noise[place - 1]
    return noise


@pytest.mark.parametrize("alike", [0.0, 0.8, 0.95])
def test_the_interval_contains_the_true_slope_as_often_as_it_says(alike):
    rng, seconds = np.random.default_rng(7), np.arange(400.0)
    found = [slope(seconds, 0.01 * seconds + correlated(rng, 400, alike)) for _ in range(200)]
    assert np.mean([each.low <= 0.01 <= each.high for each in found]) >= 0.9


def test_growth_is_found_behind_noise_and_outliers():
    rng, seconds = np.random.default_rng(0), np.arange(400.0)
    values = 100 + 0.05 * seconds + correlated(rng, 400, 0.5)
    values[::50] += 1000
    found = slope(seconds, values)
    assert found.low > 0
    assert found.value == pytest.approx(0.05, rel=0.2)


def test_what_never_changes_is_flat():
    row = slope_row("files", "files", [(float(second), 7.0) for second in range(100)], 30, bound=5)
    assert (row.value, row.interval, row.met) == (0.0, (0.0, 0.0), True)


def test_what_grows_by_more_than_the_bound_is_not_flat_and_by_less_is():
    series = [(float(second), 3.0 * second) for second in range(100)]
    row = slope_row("files", "files", series, 30, bound=2 * DAY)
    assert row.value == pytest.approx(3 * DAY)
    assert row.met is False
    assert slope_row("files", "files", series, 30, bound=4 * DAY).met is True


def test_the_warm_up_is_not_judged_but_kept():
    series = [(float(second), max(0.0, 50.0 - second)) for second in range(200)]
    row = slope_row("memory", "MB", series, 60, bound=1)
    assert row.value == 0
    assert len(row.samples) == 200


def test_few_samples_give_no_verdict():
    row = slope_row("memory", "MB", [(float(second), 1.0) for second in range(30)], 10, bound=1)
    assert row.met is None
