import pytest

from unskew.errors import ArgumentError
from unskew.workloads import workload
from unskew.workloads.key_shift import KeyShift
from unskew.workloads.social import Social
from unskew.workloads.zipf import Zipf


def test_everything_but_the_keys_is_the_bases() -> None:
    base = Zipf(exponent=1.3, key_count=500, seed=8)
    shifting = KeyShift(base=base, shift=7)
    before, after = base.rows(13, 300), shifting.rows(13, 300)
    assert ((base.keys(13, 300) + 14) % 500).tolist() == after["key"].to_pylist()
    for column in ("event_time", "value", "sequence"):
        assert before[column].equals(after[column])


def test_names_shift_with_the_ids() -> None:
    shifting = KeyShift(base=Social(key_count=100, interval_seconds=60.0), shift=1)
    assert shifting.rows(0, 3)["key"].to_pylist() == shifting.base.rows(0, 3)["key"].to_pylist()
    expected = [f"word-{(number + 4) % 100:06d}" for number in shifting.base.keys(4, 50)]
    assert shifting.rows(4, 50)["key"].to_pylist() == expected


def test_unknown_distributions_stay_unknown() -> None:
    assert workload("key-shift", base="flights", key="dest").probabilities(0) is None


def test_wrong_parameters_are_refused() -> None:
    with pytest.raises(ArgumentError, match="every_seconds"):
        workload("key-shift", every_seconds=0)
