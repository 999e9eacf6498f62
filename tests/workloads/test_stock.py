from itertools import pairwise

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.stock import Stock


def test_1036_ids_that_burst_abruptly() -> None:
    stock = Stock()
    assert stock.domain == 1_036
    laws = [stock.probabilities(day) for day in range(30)]
    jumps = [float((after - before).max()) for before, after in pairwise(laws)]
    assert min(jumps) > 0.009  # a burst adds at least a hundredth of the calm load
    assert max(law.max() for law in laws) < 1 / 15


def test_bursts_end() -> None:
    stock = Stock(bursts=1, lasts_intervals=1, key_count=100)
    calm = workload("zipf", exponent=0.6, keys=100).probabilities()
    assert calm is not None
    for day in range(20):
        raised = np.flatnonzero(stock.probabilities(day) > calm * 1.0001)
        assert raised.size == 1


def test_bursts_last_between_one_interval_and_the_most() -> None:
    stock = Stock(bursts=1, lasts_intervals=4, key_count=100_000)
    calm = workload("zipf", exponent=0.6, keys=100_000).probabilities()
    assert calm is not None
    raised = [int((stock.probabilities(day) > calm * 1.0001).sum()) for day in range(10, 60)]
    assert {1, 4} <= set(raised) <= {1, 2, 3, 4}
    assert np.mean(raised) == pytest.approx(2.5, abs=0.5)  # lengths 1 to 4 are equally likely


def test_without_bursts_it_is_zipf() -> None:
    assert Stock(bursts=0).probabilities(5) == pytest.approx(workload("zipf", exponent=0.6, keys=1036).probabilities())


@pytest.mark.parametrize(
    "wrong", [{"keys": 0}, {"bursts": -1}, {"burst_share": -1}, {"lasts_intervals": 0}, {"exponent": -1}]
)
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("stock", **wrong)
