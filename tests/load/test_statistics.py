import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import StatisticsError
from unskew.load import Statistics, combine


def test_keys_are_sorted_by_hash_with_all_their_columns() -> None:
    s = Statistics([9, -3], [1, 2], [3, 4], [5, 6], keys=pa.array(["nine", "minus three"]))
    assert s.hashes.tolist() == [-3, 9]
    assert (s.tuples.tolist(), s.cost.tolist(), s.state.tolist()) == ([2, 1], [4, 3], [6, 5])
    assert s.keys.to_pylist() == ["minus three", "nine"]


def test_totals_add_tracked_keys_and_the_rest() -> None:
    s = Statistics([1], [10], [20], [30], slot_tuples=[1, 2], slot_cost=[3, 4], slot_state=[5, 6], distinct_keys=50)
    assert (s.total_tuples, s.total_cost, s.total_state, s.distinct_keys) == (13, 27, 41, 50)


@given(st.lists(st.dictionaries(st.integers(0, 9), st.integers(0, 100), max_size=6), max_size=4))
def test_combining_adds_up_what_is_reported_twice(reports: list[dict[int, int]]) -> None:
    parts = [
        Statistics(list(r), list(r.values()), list(r.values()), list(r.values()), keys=pa.array(list(r), pa.int64()))
        for r in reports
    ]
    whole = combine(parts)
    expected: dict[int, int] = {}
    for report in reports:
        for key, cost in report.items():
            expected[key] = expected.get(key, 0) + cost
    assert dict(zip(whole.hashes.tolist(), whole.cost.tolist(), strict=True)) == expected
    assert whole.distinct_keys == len(expected)
    if reports:
        assert whole.keys.to_pylist() == sorted(expected)


def test_combining_adds_slots_up() -> None:
    part = Statistics([], [], [], [], slot_tuples=[1, 2], slot_cost=[3, 4], slot_state=[5, 6])
    assert combine([part, part]).slot_cost.tolist() == [6, 8]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1, 2], [1, 1], [1, np.nan], [1, 1]), r"cost must be .* got nan \(in row 1\)"),
        (([1, 2], [1, 1], [1, 1], [-1, 1]), r"state must be .* got -1.0 \(in row 0\)"),
        (([1, 2], [np.inf, 1], [1, 1], [1, 1]), "tuples must be"),
        (([1, 2], [1], [1, 1], [1, 1]), "tuples has 1 rows where 2 are needed"),
        (([1, 1], [1, 1], [1, 1], [1, 1]), "reported twice, got 1"),
    ],
)
def test_malformed_statistics_are_refused_by_row(columns, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        Statistics(*columns)


def test_a_key_has_its_name_from_whoever_knows_it() -> None:
    """A split key without rows in one channel has rows in the others."""
    names = [[None, "bob"], ["ada", None], ["ada again", None]]
    parts = [Statistics([1, 2], [0, 1], [0, 1], [5, 5], keys=pa.array(each, pa.string())) for each in names]
    combined = combine(parts)
    assert combined.keys is not None
    assert combined.keys.to_pylist() == ["ada", "bob"]
    nameless = combine([parts[0].without(np.array([2]))]).keys
    assert nameless is not None and nameless.to_pylist() == [None]
