from itertools import pairwise

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.social import Social


def distance(one: np.ndarray, two: np.ndarray) -> float:
    return float(np.abs(one - two).sum() / 2)


def test_180_000_words_that_drift_slowly() -> None:
    social = Social()
    assert social.domain == 180_000
    laws = [social.probabilities(day) for day in range(6)]
    steps = [distance(*pair) for pair in pairwise(laws)]
    assert max(steps) < 0.1
    assert distance(laws[0], laws[5]) > 2 * max(steps)
    assert max(law.max() for law in laws) < 1 / 15


def test_without_swing_it_is_zipf() -> None:
    static = Social(swing=0.0, key_count=1000, exponent=1.0)
    assert static.probabilities(3) == pytest.approx(workload("zipf", keys=1000).probabilities())


def test_words_are_names_of_ids() -> None:
    social = Social(key_count=50)
    assert social.rows(0, 5)["key"].to_pylist() == [f"word-{number:06d}" for number in social.keys(0, 5)]


@pytest.mark.parametrize("wrong", [{"keys": 0}, {"swing": -1}, {"period_intervals": 0}, {"exponent": -1}])
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("social", **wrong)
