from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.operators.pairs import pairs_in_runs, pairs_of

FAR = st.integers(-(2**62), 2**62)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(-3, 3) | FAR), max_size=30)


@pytest.mark.parametrize("find", [pairs_of, pairs_in_runs])
@given(rows=ROWS)
def test_pairs_are_the_sorted_distinct_ones(find, rows: list[tuple[int, int]]) -> None:
    groups, numbers = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    pairs = find(groups, numbers, 4)
    expected = sorted(set(rows))
    assert list(zip(pairs.group.tolist(), pairs.number.tolist(), strict=True)) == expected
    assert [expected[pair] for pair in pairs.pair_of_row.tolist()] == rows
    assert len(pairs) == len(expected)
