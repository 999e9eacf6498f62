import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from unskew.workloads.normal import normal_cdf, normal_quantile


def test_quantiles_are_scipys_to_the_last_bit() -> None:
    """Streams of lognormal keys depend on it."""
    tails = 10.0 ** -np.arange(1, 300)
    drawn = np.concatenate([np.random.default_rng(0).random(100_000), tails, 1 - tails[:15], [2**-53, 1 - 2**-53]])
    assert normal_quantile(drawn).tolist() == ndtri(drawn).tolist()
    assert normal_quantile(np.array([0.0, 1.0])).tolist() == [-np.inf, np.inf]


def test_cdf_is_scipys() -> None:
    numbers = np.linspace(-9, 9, 10_001)
    assert normal_cdf(numbers) == pytest.approx(ndtr(numbers), abs=1e-15, rel=1e-13)
