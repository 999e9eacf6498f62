import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.hot_key import HotKey
from unskew.workloads.zipf import Zipf

BASE = Zipf(exponent=0.3, key_count=2000, seed=5)


def test_appears_and_vanishes() -> None:
    visited = HotKey(base=BASE, share=0.3, every_intervals=6, lasts_intervals=2)
    hot = [visited.hot_key(interval) for interval in range(12)]
    assert [key is not None for key in hot] == [False] * 4 + [True] * 2 + [False] * 4 + [True] * 2
    assert hot[4] == hot[5] != hot[10]
    for interval, key in enumerate(hot):
        counts = np.bincount(visited.keys(interval, 20_000), minlength=2000) / 20_000
        if key is None:
            assert visited.keys(interval, 20_000).tolist() == BASE.keys(interval, 20_000).tolist()
        else:
            assert counts.argmax() == key
            assert counts[key] == pytest.approx(0.3, abs=0.02)


def test_other_rows_stay_as_they_are() -> None:
    visited = HotKey(base=BASE, share=0.5, every_intervals=1, lasts_intervals=1)
    drawn, before = visited.keys(3, 5_000), BASE.keys(3, 5_000)
    assert set(np.flatnonzero(drawn != before)) <= set(np.flatnonzero(drawn == visited.hot_key(3)))


@pytest.mark.parametrize(
    "wrong", [{"share": 1.5}, {"share": -0.1}, {"every_intervals": 0}, {"lasts_intervals": 21}, {"lasts_intervals": -1}]
)
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("hot-key", **wrong)
