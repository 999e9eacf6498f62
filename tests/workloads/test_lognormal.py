import numpy as np
import pytest
from scipy.stats import lognorm

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.lognormal import LN1, LN2, LogNormal

MESSAGES = 10_000_000


@pytest.mark.parametrize(
    ("named", "top_share", "distinct_keys"), [(LN1(), 0.1471, 16_380), (LN2(), 0.0701, 1_098)], ids=["LN1", "LN2"]
)
def test_table_1_of_partial_key_grouping(named: LogNormal, top_share: float, distinct_keys: int) -> None:
    law = named.probabilities()
    assert law.max() == pytest.approx(top_share, abs=5e-5)
    seen = -np.expm1(MESSAGES * np.log1p(-law))
    beyond = MESSAGES * (1 - law.sum())  # keys past the last, each seen at most once or so
    spread = np.sqrt(np.sum(seen * (1 - seen)) + beyond)
    assert seen.sum() + beyond == pytest.approx(distinct_keys, abs=4 * spread)


def test_probabilities_are_those_of_rounding_to_the_nearest() -> None:
    law = LogNormal(mu=1.0, sigma=0.7).probabilities()
    reference = lognorm(s=0.7, scale=np.e)
    edges = np.arange(law.size + 1) - 0.5
    assert law == pytest.approx(np.diff(reference.cdf(edges)), abs=1e-12)


def test_draws_are_rounded_quantiles() -> None:
    named = LogNormal(mu=2.0, sigma=1.5, seed=4)
    numbers = np.random.Generator(np.random.PCG64(np.random.SeedSequence((4, 2), spawn_key=(0,)))).random(1000)
    assert named.keys(2, 1000).tolist() == np.rint(lognorm(s=1.5, scale=np.exp(2.0)).ppf(numbers)).tolist()


def test_there_is_no_largest_key() -> None:
    assert LN1().domain is None
    with pytest.raises(ArgumentError, match="bounded number of keys"):
        workload("hot-key", base="ln1")


@pytest.mark.parametrize("wrong", [{"sigma": 0}, {"mu": float("inf")}])
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("lognormal", **wrong)
