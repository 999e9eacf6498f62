from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.load.resources import CONSTANT, LINEAR, QUADRATIC, ResourceFunction, resource_function

SHARES = np.array([0.0, 0.1, 0.5, 1.0])


@pytest.mark.parametrize(
    ("name", "loads"),
    [("constant", [1, 1, 1, 1]), ("linear", [0, 0.1, 0.5, 1]), ("quadratic", [0, 0.01, 0.25, 1])],
)
def test_functions_by_name(name, loads):
    np.testing.assert_allclose(resource_function(name)(SHARES), loads, rtol=1e-15)


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(ArgumentError, match=r"cubic.*constant, linear, quadratic"):
        resource_function("cubic")


@pytest.mark.parametrize(
    "function",
    [lambda f: 1 - f, lambda f: np.sin(7 * f) + 2, lambda f: f - 0.5, lambda f: 1 / f, np.sum],
    ids=["falls", "waves", "negative", "infinite", "one number"],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_a_function_that_cannot_be_a_load_is_refused(function):
    with pytest.raises(ArgumentError, match="odd"):
        ResourceFunction("odd", function)


@given(load=st.floats(1e-9, 0.999))
def test_the_numeric_inverse_agrees_with_the_formula(load):
    numeric = ResourceFunction("squares", lambda f: f**2)
    assert numeric.largest_share_within(load) == pytest.approx(QUADRATIC.largest_share_within(load), rel=1e-9)


@given(load=st.floats(0, 25))
def test_the_share_found_is_the_largest_within_the_load(load):
    logarithmic = ResourceFunction("log", lambda f: np.log2(1 + 1e6 * f))
    share = logarithmic.largest_share_within(load)
    assert logarithmic([share])[0] <= load + 1e-6
    assert share == 1.0 or logarithmic([min(1.0, share * (1 + 1e-6) + 1e-12)])[0] > load


def test_limits_outside_the_range_of_the_function():
    shifted = ResourceFunction("base load", lambda f: 0.5 + f)
    assert shifted.largest_share_within(0.4) == 0.0
    assert shifted.largest_share_within(2.0) == 1.0
    assert CONSTANT.largest_share_within(1e-9) == 1.0


@given(st.lists(st.floats(1e-6, 1.0), min_size=2, max_size=30))
def test_no_shares_have_a_smaller_total_than_the_least(weights):
    shares = np.array(weights) / np.sum(weights)
    root = ResourceFunction("root", np.sqrt)
    for function in (CONSTANT, LINEAR, QUADRATIC, root):
        assert function(shares).sum() >= function.least_total(len(shares)) * (1 - 1e-9)


def test_estimated_total_spreads_the_rest_evenly():
    known = np.array([0.5, 0.2])
    assert QUADRATIC.estimated_total(known, 100) == pytest.approx(0.29091837, abs=5e-9)
    assert QUADRATIC.estimated_total(known, 2) == pytest.approx(0.29)
    assert LINEAR.estimated_total(known, 100) == 1.0


def test_times_share_raises_the_power():
    assert CONSTANT.times_share() == LINEAR
    assert LINEAR.times_share() == QUADRATIC
    np.testing.assert_allclose(QUADRATIC.times_share()(SHARES), SHARES**3)
