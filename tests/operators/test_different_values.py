"""Different values of groups, against sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from unskew.operators.aggregate_sets import united
from unskew.state.groups import Groups

ROW = st.tuples(st.integers(0, 3), st.sampled_from(["", "a", "b", "ä"]), st.sampled_from([0.0, -1.5, math.inf]))


def groups_of(numbers: list[int], count: int) -> Groups:
    return Groups(np.zeros(count, np.int64), pa.table({}), np.array(numbers, np.int64))


@given(rows=st.lists(ROW, max_size=40))
def test_unites_values_of_several_parts(rows: list[tuple[int, str, float]]) -> None:
    numbers = [[row[place] for row in rows] for place in range(3)]
    columns = [pa.array(numbers[1], pa.string()), pa.array(numbers[2], pa.float64())]
    weights = np.arange(len(rows))
    bags = united(columns, [weights, np.ones(len(rows), np.int64)], groups_of(numbers[0], 5))
    expected: list[list[Any]] = [sorted({row[1:] for row in rows if row[0] == group}) for group in range(5)]
    assert bags.lengths.tolist() == [len(values) for values in expected]
    assert bags.starts.tolist() == [sum(map(len, expected[:group])) for group in range(6)]
    values = list(zip(*(column.to_pylist() for column in bags.columns), strict=True))
    assert values == [value for of_group in expected for value in of_group]
    places = [
        [place for place, row in enumerate(rows) if row == (group, *value)]
        for group, values in enumerate(expected)
        for value in values
    ]
    assert bags.counters[0].tolist() == [sum(each) for each in places]
    assert bags.counters[1].tolist() == [len(each) for each in places]


@given(lists=st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=9).map(sorted), max_size=6))
def test_merges_lists_in_order(lists: list[list[int]]) -> None:
    values = [value for each in lists for value in each]
    bags = united([pa.array(values, pa.int64())], [], groups_of([0] * len(values), 1))
    assert bags.columns[0].to_pylist() == sorted(set(values))
