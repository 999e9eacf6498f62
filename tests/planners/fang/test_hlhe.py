from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.planners.fang.hlhe import discretise

FIG_6 = [8, 6, 3, 2, 2, 1, 1, 1, 1, 1]


def representatives(maximum: float, degree: int) -> list[float]:
    """List the representatives as the paper builds them, largest first."""
    step = 2**degree
    linear = [float(j * step) for j in range(int(maximum // step), 0, -1)]
    return linear + [float(2**j) for j in range(degree - 1, -1, -1)]


def plain(values, degree, unit):
    """Discretise value by value; returns the representatives and the accumulated deviations."""
    result, deviations, total = [0.0] * len(values), [], 0.0
    order = [i for i in sorted(range(len(values)), key=lambda i: (-values[i], i)) if values[i] > 0]
    y = representatives(values[order[0]] / unit, degree) if order else []
    for i in order:
        x = values[i] / unit
        if x >= y[0]:
            chosen = y[0]
        else:
            j = next((j for j in range(len(y)) if x >= y[j]), len(y) - 1)
            lower, upper = y[j], y[j - 1]
            chosen = upper if abs(total + x - upper) < abs(total + x - lower) else lower
        total += x - chosen
        result[i] = chosen * unit
        deviations.append(total)
    return result, deviations


def test_figure_6():
    expected = [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    assert discretise(FIG_6, degree=2).tolist() == expected
    assert np.cumsum(np.array(FIG_6) - expected).tolist() == [0, 2, 1, 1, 1, 0, 0, 0, 0, 0]


def test_the_printed_rule_would_end_figure_6_with_a_deviation():
    # upper whenever the accumulated deviation is positive: 2 -> 4 at the fourth value
    total = 0
    for x in FIG_6:
        y = representatives(8, 2)
        lower = next(r for r in y if x >= r)
        upper = y[max(0, y.index(lower) - 1)]
        total += x - (upper if total > 0 else lower)
    assert total == -1
    assert sum(FIG_6) - discretise(FIG_6, degree=2).sum() == 0


def test_ties_take_the_lower_representative():
    assert discretise([8, 6, 1], degree=2).tolist() == [8, 4, 2]


def test_zeros_are_kept_apart():
    assert discretise([0, 8, 0, 1], degree=2).tolist() == [0, 8, 0, 1]
    assert discretise([0, 0], degree=2).tolist() == [0, 0]
    assert discretise([], degree=2).tolist() == []


def test_without_a_linear_part_only_powers_below_the_step_remain():
    collapsed = discretise([180] * 50, degree=8, unit=1)
    assert set(collapsed) == {128}
    assert 1 - collapsed.sum() / (180 * 50) == pytest.approx(0.29, abs=0.005)


def test_the_smallest_value_counts_as_one():
    assert discretise([0.8, 0.6, 0.1], degree=2).tolist() == pytest.approx([0.8, 0.4, 0.2])


def test_degree_zero_keeps_whole_numbers():
    values = [180, 7, 7, 3, 1]
    assert discretise(values, degree=0).tolist() == values


number = st.floats(0, 1e4).map(lambda x: 0.0 if x < 1e-3 else x) | st.integers(0, 300).map(float)
numbers = st.lists(number, max_size=60)


@settings(deadline=None)
@given(numbers, st.integers(0, 8), st.sampled_from([1, 2, 3]))
def test_equals_the_definition(values, degree, divisor):
    unit = min([v for v in values if v > 0], default=1.0) / divisor
    expected, _ = plain(values, degree, unit)
    assert discretise(values, degree, unit).tolist() == pytest.approx(expected)
    if divisor == 1:
        assert discretise(values, degree).tolist() == discretise(values, degree, unit).tolist()


def test_what_is_less_than_the_unit_counts_as_one():
    assert discretise([0.5, 0.25], degree=3, unit=1).tolist() == [1, 1]


@settings(deadline=None)
@given(numbers, st.integers(0, 8))
def test_deviation_stays_within_half_a_gap(values, degree):
    positive = [v for v in values if v > 0]
    if not positive:
        return
    unit = min(positive)
    _, deviations = plain(values, degree, unit)
    y = representatives(max(positive) / unit, degree)
    before = 0.0
    for x, after in zip(sorted(positive, reverse=True), deviations, strict=True):
        if x / unit < y[0]:
            lower = next(j for j in range(len(y)) if x / unit >= y[j])
            assert abs(after) <= max(abs(before), (y[lower - 1] - y[lower]) / 2) * (1 + 1e-9)
        before = after


def test_many_skewed_values_keep_their_sum():
    values = np.floor(np.random.default_rng(0).zipf(1.8, 20000).clip(max=5000))
    assert discretise(values, degree=3).sum() == pytest.approx(values.sum(), rel=1e-4)


def test_a_negative_degree_is_refused():
    with pytest.raises(ArgumentError, match="degree"):
        discretise([1], degree=-1)
