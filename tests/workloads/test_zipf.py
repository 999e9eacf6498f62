import numpy as np
import pytest
from scipy.stats import chisquare

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.zipf import Zipf


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.5, 2.0, 2.7])
def test_frequencies(exponent: float) -> None:
    met = np.bincount(Zipf(exponent=exponent, key_count=50, seed=11).keys(3, 100_000), minlength=50)
    law = np.arange(1, 51.0) ** -exponent
    assert chisquare(met, law / law.sum() * 100_000).pvalue > 1e-4


def test_top_share_of_partial_key_grouping_figure_9() -> None:
    assert Zipf(exponent=1.2, key_count=1_000_000).probabilities()[0] == pytest.approx(0.19, abs=0.005)


def test_intervals_are_independent_draws_of_one_law() -> None:
    zipf = Zipf(exponent=0.0, key_count=10)
    together = np.concatenate([zipf.keys(interval, 1_000) for interval in range(100)])
    assert chisquare(np.bincount(together, minlength=10)).pvalue > 1e-4
    assert zipf.keys(0, 1_000).tolist() != zipf.keys(1, 1_000).tolist()


@pytest.mark.parametrize(
    "wrong",
    [{"exponent": -1}, {"exponent": float("nan")}, {"keys": 0}, {"seed": -1}, {"interval_seconds": 0}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=f"{next(iter(wrong))} must be .*workload 'zipf'"):
        workload("zipf", **wrong)
