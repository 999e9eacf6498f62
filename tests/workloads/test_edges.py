import numpy as np
import pytest
from scipy.stats import chisquare, spearmanr

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.edges import Edges


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("column", ["source", "key"])
def test_both_ends_follow_zipf(correlation: float, column: str) -> None:
    edges = Edges(exponent=0.8, key_count=60, correlation=correlation, neighbourhood=0.05)
    met = np.bincount(edges.rows(0, 100_000)[column].to_numpy(), minlength=60)
    assert chisquare(met, edges.probabilities() * 100_000).pvalue > 1e-4


def rank_correlation(correlation: float) -> float:
    rows = Edges(exponent=0.7, key_count=100_000, correlation=correlation).rows(0, 20_000)
    return float(spearmanr(rows["source"].to_numpy(), rows["key"].to_numpy()).statistic)


def test_ends_are_as_correlated_as_asked() -> None:
    assert rank_correlation(0.0) == pytest.approx(0, abs=0.03)
    assert rank_correlation(0.5) == pytest.approx(0.5, abs=0.05)
    assert rank_correlation(1.0) > 0.9


def test_defaults_are_the_stand_in_for_live_journal() -> None:
    fitted = workload("lj").fit  # type: ignore[attr-defined]
    assert Edges().exponent == pytest.approx(fitted.exponent, abs=5e-4)
    assert Edges().key_count == pytest.approx(fitted.universe, rel=5e-3)


@pytest.mark.parametrize(
    "wrong", [{"correlation": 1.1}, {"neighbourhood": 0}, {"keys": 0}, {"exponent": -1}, {"neighbourhood": 2}]
)
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("edges", **wrong)
