import numpy as np
import pytest
from scipy.special import zeta
from scipy.stats import chisquare

from unskew.workloads.power_law import HEAD, PowerLaw, power_integral, power_sum

NUMBERS = np.random.default_rng(1).random(100_000)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.921, 1.0, 1.1, 2.0, 5.0])
@pytest.mark.parametrize(("keys", "offset"), [(1, 1.0), (1000, 1.0), (HEAD + 1, 1.0), (1_000_000, 2.72)])
def test_equals_a_search_in_the_whole_table(exponent: float, keys: int, offset: float) -> None:
    law = PowerLaw(exponent, keys, offset)
    cumulative = np.cumsum((offset + np.arange(keys)) ** -exponent)
    assert law.total == pytest.approx(cumulative[-1], rel=1e-10)
    expected = np.searchsorted(cumulative, NUMBERS * cumulative[-1], side="right")
    drawn = law.quantile(NUMBERS)
    assert np.abs(drawn - expected).max() <= 1  # where a number falls on the very edge between two keys
    assert (drawn != expected).sum() <= 1


def test_the_tail_has_the_right_shares() -> None:
    law = PowerLaw(0.9, 10_000_000)
    edges = np.array([HEAD, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000])
    drawn = law.quantile(NUMBERS)
    met = np.histogram(drawn, np.concatenate(([0], edges)))[0]
    expected = np.diff([0, *(law.weights(0, edge).sum() / law.total for edge in edges.tolist())])
    assert chisquare(met, expected * NUMBERS.size).pvalue > 1e-4


def test_the_largest_number_below_one_stays_in_the_domain() -> None:
    for exponent in (0.0, 1.0, 1.5, 3.0, 20.0):
        for keys in (1, 70_000, 10**9):
            assert 0 <= PowerLaw(exponent, keys).quantile(np.array([1 - 2**-53]))[0] < keys


@pytest.mark.parametrize(
    ("exponent", "keys"), [(0.0, 5000), (0.698, 100_000), (1.0, 1_000_000), (1.2, 3000), (2.5, 9999)]
)
def test_power_sum_equals_the_sum(exponent: float, keys: int) -> None:
    assert power_sum(exponent, keys) == pytest.approx(np.sum(np.arange(keys, 0, -1.0) ** -exponent), rel=1e-12)


def test_power_sum_tends_to_zeta() -> None:
    assert power_sum(2.0, 10**15) == pytest.approx(zeta(2.0), rel=1e-12)


def test_power_integral_is_smooth_around_exponent_one() -> None:
    around = [power_integral(3.0, 50.0, 1.0 + step) for step in (-1e-9, 0.0, 1e-9)]
    assert around == pytest.approx([np.log(50 / 3)] * 3, rel=1e-7)


def test_smalops_top_shares() -> None:
    law = PowerLaw(1.1, 28_000_000, offset=2.72)
    assert (100 * law.weights(0, 3) / law.total).round(2).tolist() == [4.48, 3.17, 2.44]


def test_no_table_for_the_tail() -> None:
    law = PowerLaw(0.921, 31_000_000)
    assert sum(value.nbytes for value in vars(law).values() if isinstance(value, np.ndarray)) < 2**20
