import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.hashing import xxhash64
from unskew.workloads import workload
from unskew.workloads.fluctuation import Fluctuation, _history
from unskew.workloads.span import DRIFT, uniforms
from unskew.workloads.zipf import Zipf


def loads(drift: Fluctuation, interval: int) -> np.ndarray:
    """Load of every channel in units of the mean, from nothing but the stated probabilities and Spark's hash."""
    homes = xxhash64([pa.array(np.arange(drift.domain))]) % drift.channels
    return np.bincount(homes, weights=drift.probabilities(interval), minlength=drift.channels) * drift.channels


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0, 2.0])
def test_load_changes_by_the_rate_asked_for(rate: float) -> None:
    drift = Fluctuation(base=Zipf(exponent=0.85, key_count=20_000), rate=rate)
    for interval in range(1, 9):
        change = np.abs(loads(drift, interval) - loads(drift, interval - 1)).max()
        assert drift.achieved(interval) == pytest.approx(change, abs=1e-9)
        assert change >= rate - 1e-9
        assert change < rate + drift.channels * 2 * drift.probabilities(0).max()  # it stops as soon as it may


@settings(max_examples=15, deadline=None)
@given(
    exponent=st.sampled_from([0.0, 0.5, 1.0, 1.5]),
    keys=st.integers(1, 400),
    channels=st.integers(1, 8),
    rate=st.sampled_from([0.0, 0.2, 1.0, 3.0]),
    most_swaps=st.integers(0, 50),
)
def test_equals_the_plain_procedure(exponent: float, keys: int, channels: int, rate: float, most_swaps: int) -> None:
    base = Zipf(exponent=exponent, key_count=keys, seed=1)
    drift = Fluctuation(base=base, rate=rate, channels=channels, most_swaps=most_swaps)
    share = base.probabilities()
    homes = (xxhash64([pa.array(np.arange(keys))]) % channels).tolist()
    key_of = list(range(keys))
    for interval in (1, 2, 3):
        numbers = uniforms(1, interval, DRIFT, 2 * most_swaps)
        hot = np.searchsorted(np.cumsum(share), numbers[:most_swaps] * np.cumsum(share)[-1], side="right").tolist()
        achieved = swap_until(
            rate, key_of, homes, share, channels, hot, (numbers[most_swaps:] * keys).astype(int).tolist()
        )
        assert drift.achieved(interval) == pytest.approx(achieved, abs=1e-12)
        assert drift.probabilities(interval)[key_of].tolist() == share.tolist()


def swap_until(rate, key_of, homes, share, channels, hot, other):  # type: ignore[no-untyped-def]
    change = [0.0] * channels

    def achieved() -> float:
        return max(map(abs, change)) * channels

    def swap(one: int, two: int) -> None:
        change[homes[key_of[one]]] -= share[one] - share[two]
        change[homes[key_of[two]]] += share[one] - share[two]
        key_of[one], key_of[two] = key_of[two], key_of[one]

    for one, two in zip(hot, other, strict=True):
        if achieved() >= rate:
            return achieved()
        if homes[key_of[one]] != homes[key_of[two]] and share[one] != share[two]:
            swap(one, two)
    target = change.index(max(change))
    while achieved() < rate:
        away = [rank for rank in range(len(share)) if homes[key_of[rank]] != target]
        there = [rank for rank in range(len(share)) if homes[key_of[rank]] == target]
        if not away or not there or share[away[0]] <= share[there[-1]]:
            break
        swap(away[0], there[-1])
    return achieved()


def test_uniform_keys_cannot_fluctuate_and_say_so() -> None:
    drift = Fluctuation(base=Zipf(exponent=0.0, key_count=1000), rate=0.5)
    assert drift.achieved(3) == 0.0
    assert drift.keys(3, 100).tolist() == drift.base.keys(3, 100).tolist()


def test_a_rate_out_of_reach_is_approached() -> None:
    drift = Fluctuation(base=Zipf(exponent=0.5, key_count=200), rate=100.0, channels=4)
    assert 0.5 < drift.achieved(1) < 4.0


def test_any_order_of_visits_gives_the_same() -> None:
    drift = Fluctuation(base=Zipf(exponent=1.0, key_count=3000, seed=9), rate=0.7)
    order = [5, 0, 3, 12, 11, 12, 1]
    wandering = {interval: drift.keys(interval, 500).tolist() for interval in order}
    for interval in sorted(wandering):
        _history.cache_clear()
        assert drift.keys(interval, 500).tolist() == wandering[interval]


def test_keys_only_trade_places() -> None:
    drift = Fluctuation(base=Zipf(exponent=0.85, key_count=5000), rate=1.0)
    assert sorted(drift.probabilities(6)) == sorted(drift.probabilities(0))
    assert (drift.probabilities(0) == drift.base.probabilities()).all()


def test_the_base_must_be_known() -> None:
    with pytest.raises(ArgumentError, match="distribution is not known"):
        workload("fluctuation", base="flights").keys(1, 5)


@pytest.mark.parametrize("wrong", [{"rate": -1}, {"channels": 0}, {"most_swaps": -1}])
def test_wrong_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        workload("fluctuation", **wrong)
