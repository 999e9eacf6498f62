from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew_lab.bench.pairs import batch_rows, difference_of_medians, ratio_of_medians

SECONDS = st.floats(0.1, 10)


@given(st.lists(st.tuples(SECONDS, SECONDS), min_size=2, max_size=12))
def test_the_interval_holds_medians_of_turns_only(turns):
    above, below = zip(*turns, strict=True)
    ratio = ratio_of_medians(above, below)
    assert ratio.value == pytest.approx(statistics.median(above) / statistics.median(below))
    low, high = ratio.interval
    assert min(above) / max(below) - 1e-9 <= low <= high <= max(above) / min(below) + 1e-9
    assert difference_of_medians(above, below).value == pytest.approx(
        statistics.median(above) - statistics.median(below)
    )


def test_a_noisy_moment_that_hurts_both_does_not_widen_the_interval():
    noise = np.random.default_rng(0).uniform(1, 5, 30)
    paired = ratio_of_medians(list(2 * noise), list(noise))
    assert paired.interval == pytest.approx((2.0, 2.0))
    shuffled = ratio_of_medians(list(2 * noise), list(np.roll(noise, 7)))
    low, high = shuffled.interval
    assert low < 1.8
    assert high > 2.2


def test_the_interval_is_the_one_that_a_slow_bootstrap_finds():
    rng = np.random.default_rng(1)
    above, below = rng.normal(2, 0.2, 20), rng.normal(1, 0.1, 20)
    draws = []
    for _ in range(5_000):
        turns = rng.integers(0, 20, 20)
        draws.append(statistics.median(above[turns]) / statistics.median(below[turns]))
    assert ratio_of_medians(list(above), list(below)).interval == pytest.approx(
        tuple(np.quantile(draws, [0.025, 0.975])), abs=0.03
    )


def test_more_turns_narrow_the_interval():
    def width(turns):
        rng = np.random.default_rng(2)
        low, high = ratio_of_medians(list(rng.normal(2, 0.3, turns)), list(rng.normal(1, 0.15, turns))).interval
        return high - low

    assert width(400) < width(40) / 2


def test_turns_must_pair_and_one_turn_has_no_interval():
    assert ratio_of_medians([3.0], [2.0]).interval is None
    for above, below in (([1.0], [1.0, 2.0]), ([], [])):
        with pytest.raises(ArgumentError, match="the same turns"):
            ratio_of_medians(above, below)


def test_an_estimate_is_judged_by_its_value():
    quiet = ratio_of_medians([1.0, 1.3, 1.05], [1.0, 1.0, 1.0])
    row = quiet.row("moving over quiet", target=1.10, better="lower")
    assert (row.value, row.met, row.contender) == (1.05, True, "unskew")
    assert row.interval == quiet.interval == (1.0, 1.3)
    assert quiet.row("moving over quiet", target=1.04, better="lower").met is False
    assert quiet.row("native over unskew", target=1.04).met is True


def test_everybody_has_a_median_with_samples_and_a_95_percent():
    rows = batch_rows("count", {"native": [float(n) for n in range(1, 22)], "unskew": [1.0, 2.0]})
    assert [(row.name, row.contender, row.value) for row in rows] == [
        ("count: batch, median", "native", 11.0),
        ("count: batch, median", "unskew", 1.5),
        ("count: batch, 95 %", "native", 20.0),
        ("count: batch, 95 %", "unskew", pytest.approx(1.95)),
    ]
    assert rows[1].samples == [1.0, 2.0]
