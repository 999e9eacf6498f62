import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.smalops import Smalops


def test_published_parameters_are_the_defaults() -> None:
    law = Smalops(key_count=1000).probabilities()
    expected = (2.72 + np.arange(1000)) ** -1.1
    assert law == pytest.approx(expected / expected.sum())
    assert law[0] == pytest.approx(0.079, abs=5e-4)


def test_top_shares_at_28_million_keys() -> None:
    met = np.bincount(Smalops(key_count=28_000_000).keys(0, 1_000_000)[:], minlength=3)[:3] / 1_000_000
    assert met == pytest.approx([0.0448, 0.0317, 0.0244], abs=1e-3)  # five standard deviations


def test_keys_shift_every_minute() -> None:
    static = Smalops(key_count=5000, shift=0)
    shifting = Smalops(key_count=5000, shift=100)
    for interval, minute in [(0, 0), (5, 0), (6, 1), (11, 1), (12, 2), (600, 100)]:
        expected = (static.keys(interval, 400) + 100 * minute) % 5000
        assert shifting.keys(interval, 400).tolist() == expected.tolist()


def test_minutes_are_of_event_time() -> None:
    every_second = Smalops(key_count=5000, interval_seconds=1.0)
    assert [int(every_second.probabilities(interval).argmax()) for interval in (0, 59, 60, 120)] == [0, 0, 100, 200]


@pytest.mark.parametrize("wrong", [{"offset": 0}, {"every_seconds": 0}, {"keys": 0}, {"exponent": -0.1}])
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("smalops", **wrong)
