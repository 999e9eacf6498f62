import numpy as np
import pytest
from scipy.optimize import brentq

from unskew.errors import ArgumentError
from unskew.workloads.fitting import brent_root, expected_distinct, fit
from unskew.workloads.power_law import PowerLaw, power_sum


@pytest.mark.parametrize(
    ("figures", "universe", "exponent"),
    [
        ((22_000_000, 2_900_000, 0.0932), 24_500_000, 1.067),
        ((1_200_000_000, 31_000_000, 0.0267), 31_000_000, 0.921),
        ((690_000, 2_900, 0.0329), 2_900, 0.719),
        ((69_000_000, 4_900_000, 0.0029), 4_900_000, 0.698),
        ((905_000, 77_000, 0.0328), 80_200, 0.849),
        ((948_000, 82_000, 0.0311), 85_400, 0.843),
    ],
    ids=["WP", "TW", "CT", "LJ", "SL1", "SL2"],
)
def test_the_stand_ins_of_partial_key_grouping(figures: tuple[int, int, float], universe: int, exponent: float) -> None:
    fitted = fit(*figures)
    assert fitted.universe == pytest.approx(universe, rel=5e-3)
    assert fitted.exponent == pytest.approx(exponent, abs=6e-4)


def test_a_fit_has_the_figures_it_was_asked_for() -> None:
    fitted = fit(300_000, 90_000, 0.02)
    chance = np.arange(1, fitted.universe + 1.0) ** -fitted.exponent
    chance /= chance.sum()
    assert chance[0] == pytest.approx(0.02, rel=1e-6)
    assert np.sum(1 - (1 - chance) ** 300_000) == pytest.approx(90_000, rel=1e-5)


def test_expected_distinct_of_a_long_tail_equals_the_sum() -> None:
    chance = PowerLaw(1.067, 2_000_000).probabilities()
    brute_force = -np.expm1(1_000_000 * np.log1p(-chance)).sum()
    assert expected_distinct(PowerLaw(1.067, 2_000_000), 1_000_000) == pytest.approx(brute_force, rel=1e-6)


def test_smalops_meets_3_2_of_28_million_keys() -> None:
    assert expected_distinct(PowerLaw(1.1, 28_000_000, 2.72), 28_000_000) == pytest.approx(3.22e6, rel=2e-3)


@pytest.mark.parametrize(
    "figures", [(10, 20, 0.5), (1000, 100, 0.001), (1000, 100, 1.0), (1000, 990, 0.6), (0, 0, 0.5)]
)
def test_impossible_figures_are_refused(figures: tuple[int, int, float]) -> None:
    with pytest.raises(ArgumentError, match="no Zipf law"):
        fit(*figures)


@pytest.mark.parametrize("tolerance", [1e-7, 1e-9, 1e-12])
def test_roots_are_scipys_to_the_last_bit(tolerance: float) -> None:
    """Streams of stand-ins depend on it."""
    for root in np.random.default_rng(0).random(100).tolist():
        for function in (
            lambda x, root=root: np.exp(x) - 1 - root,
            lambda x, root=root: x**3 - root,
            lambda x, root=root: np.tanh(9 * (x - root)),
            lambda x, root=root: 1 / power_sum(20 * x, 1000) - root,
        ):
            assert brent_root(function, 0.0, 2.0, tolerance) == brentq(function, 0.0, 2.0, xtol=tolerance)


def test_a_root_needs_two_signs() -> None:
    with pytest.raises(ArgumentError, match="same sign"):
        brent_root(lambda x: x * x + 1, -1.0, 1.0, 1e-9)
