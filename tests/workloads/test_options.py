import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.workloads import WORKLOADS, workload
from unskew.workloads.fluctuation import Fluctuation
from unskew.workloads.key_shift import KeyShift
from unskew.workloads.options import options_of, whole_number
from unskew.workloads.smalops import Smalops
from unskew.workloads.zipf import Zipf


def test_text_and_values_mean_the_same() -> None:
    expected = Zipf(exponent=1.25, key_count=1_000_000, seed=3, interval_seconds=2.0)
    assert workload("zipf", exponent=1.25, keys=1_000_000, seed=3, interval_seconds=2) == expected
    assert workload("zipf", exponent="1.25", keys="1e6", seed="3", intervalSeconds="2") == expected
    assert workload("zipf", EXPONENT="1.25", keycount="1_000_000", seed="3", intervalseconds="2.0") == expected


def test_a_drift_hands_options_to_its_base() -> None:
    drift = workload("fluctuation", rate="0.3", base="smalops", keys="500", seed="4")
    assert drift == Fluctuation(base=Smalops(key_count=500, seed=4), rate=0.3)
    assert drift.seed == 4


def test_a_drift_takes_a_base_that_is_there() -> None:
    inner = workload("fluctuation", keys=100)
    assert workload("key-shift", base=inner, shift=3) == KeyShift(base=inner, shift=3)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("zipfs", {}, "did you mean 'zipf'"),
        ("livejournal-graph-of-2008", {}, "one of ct, edges"),
        ("zipf", {"exponnent": 1}, r"no option 'exponnent' \(in workload 'zipf'\). Hint: did you mean 'exponent'"),
        ("zipf", {"zzz": 1}, "one of exponent, intervalseconds"),
        ("zipf", {"keys": "many"}, "expected a whole number, got 'many' .in option 'keys' of workload 'zipf'"),
        ("zipf", {"keys": 1.5}, "expected a whole number"),
        ("zipf", {"exponent": "steep"}, "expected a number, got 'steep'"),
        ("hot-key", {"base": "zip"}, "did you mean 'zipf'"),
        ("hot-key", {"shar": 0.1}, "in workload 'hot-key' over 'zipf'.*did you mean 'share'"),
        ("hot-key", {"exponet": 0.1}, "did you mean 'exponent'"),
        ("key-shift", {"base": Zipf(), "exponent": 1}, "no option 'exponent' .in workload 'key-shift'"),
    ],
)
def test_what_is_wrong_is_named(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        workload(name, **options)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_defaults_are_options(name: str) -> None:
    assert workload(name, **options_of(WORKLOADS[name])) == workload(name)


@given(st.integers(-(10**30), 10**30))
def test_whole_numbers_are_read_exactly(number: int) -> None:
    assert whole_number(str(number), "here") == whole_number(f"{number}.0", "here") == number


@pytest.mark.parametrize("text", ["", "1.5", "nan", "inf", "one", None, [], "1e-3"])
def test_other_things_are_not_whole_numbers(text: object) -> None:
    with pytest.raises(ArgumentError, match="whole number"):
        whole_number(text, "here")
