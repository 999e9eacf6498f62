"""Every figure here is worked out in the specifications of the papers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.load import metrics

FREQUENCIES = {"X": 5, "Z": 3, "V": 2, "R": 1, "U": 4, "Y": 3, "W": 3, "L": 1}


@pytest.mark.parametrize(
    ("before", "after", "network", "compute", "moved"),
    [
        ("XZVR/UYWL", "XZ/UY/WVRL", (1, 1.142857), (1.114286, 2.266667), 7),
        ("XZV/UYWLR", "X/UY/WZVRL", (1.2, 2), (1.055556, 1.041667), 10),
        ("XZV/UYWLR", "XRL/UY/WZV", (1.2, 1.142857), (1.055556, 1.227273), 10),
    ],
    ids=["network", "compute", "both"],
)
def test_gedik_figure_1(before, after, network, compute, moved) -> None:
    for channels, ratio_network, ratio_compute in ((before, network[0], compute[0]), (after, network[1], compute[1])):
        groups = channels.split("/")
        linear = [sum(FREQUENCIES[key] for key in group) for group in groups]
        quadratic = [sum(FREQUENCIES[key] ** 2 for key in group) for group in groups]
        assert metrics.balance_ratio(linear) == pytest.approx(ratio_network, abs=1e-6)
        assert metrics.balance_ratio(quadratic) == pytest.approx(ratio_compute, abs=1e-6)
    owner = [{key: i for i, group in enumerate(side.split("/")) for key in group} for side in (before, after)]
    state = list(FREQUENCIES.values())
    cost = metrics.migration_cost(state, *([o[key] for key in FREQUENCIES] for o in owner))
    assert cost == moved
    expected = {7: 0.954545, 10: 1.363636}[moved]
    assert metrics.relative_migration(cost, 22, 2, 3) == pytest.approx(expected, abs=1e-6)


def test_gedik_both_setup_at_three_channels() -> None:
    network = metrics.relative_imbalance([7, 7, 8], 1.2)
    compute = metrics.relative_imbalance([27, 25, 22], 1.2)
    assert (network, compute) == (pytest.approx(0.952381, abs=1e-6), pytest.approx(1.022727, abs=1e-6))
    combined = metrics.combined_imbalance([network, compute, network])
    assert combined == pytest.approx(0.975275, abs=1e-6)
    assert combined * (1 + 30 / 22) == pytest.approx(2.305195, abs=1e-6)


def test_tolerated_deviation_at_the_default_ratio() -> None:
    expected = {1: 0, 2: 0.0909091, 3: 0.125, 10: 3 / 17, 32: 0.1925466}
    assert {n: metrics.tolerated_deviation(1.2, n) for n in expected} == pytest.approx(expected, abs=1e-7)
    assert metrics.tolerated_deviation(1.0, 8) == 0


@given(st.integers(2, 100), st.floats(0, 0.95))
def test_tolerance_and_ratio_are_two_words_for_one_limit(channels: int, tolerance: float) -> None:
    ratio = metrics.ratio_of_tolerance(tolerance, channels)
    assert metrics.tolerated_deviation(ratio, channels) == pytest.approx(tolerance, abs=1e-9)
    level = (channels - 1 - tolerance) / (channels - 1)
    loads = [1 + tolerance] + [level] * (channels - 1)
    assert metrics.overload(loads) == pytest.approx(tolerance, abs=1e-9)
    assert metrics.balance_ratio(loads) == pytest.approx(ratio, rel=1e-9)


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=12))
def test_a_ratio_bounds_the_deviation_on_both_sides(loads: list[float]) -> None:
    bound = metrics.tolerated_deviation(metrics.balance_ratio(loads), len(loads))
    mean = np.mean(loads)
    assert np.abs(np.array(loads) - mean).max() / mean <= bound + 1e-9


def test_ratios_where_there_is_no_limit() -> None:
    assert metrics.ratio_of_tolerance(1.0, 2) == math.inf
    assert metrics.ratio_of_tolerance(0.5, 1) == math.inf
    assert metrics.tolerated_deviation(math.inf, 5) == 4


def test_a_shrinking_step_compares_with_the_larger_number_of_channels() -> None:
    assert metrics.relative_migration(10, 100, channels_before=10, channels=9) == pytest.approx(1)
    assert metrics.relative_migration(40, 100, channels_before=5, channels=3) == pytest.approx(1)


def test_fang_overload_is_one_sided() -> None:
    assert metrics.overload([1.08] * 5 + [0.60]) == pytest.approx(0.08)


def test_smalops_vector() -> None:
    assert metrics.balancing_error([110, 50, 20]) == 100
    assert metrics.balancing_error([100, 60, 20]) == 80
    assert metrics.balancing_error([85, 60, 35]) == 50
    assert metrics.balancing_error([60, 60, 60]) == 0


def test_nothing_to_do_is_balanced() -> None:
    assert metrics.overload([0, 0]) == 0
    assert metrics.balance_ratio([0, 0]) == 1
    assert metrics.balance_ratio([1, 0]) == math.inf


def test_no_channels_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="one number per channel"):
        metrics.overload([])
