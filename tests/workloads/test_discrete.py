import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.workloads.discrete import DiscreteTable

weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e6)), min_size=1, max_size=60).filter(any)


@given(weights=weights, numbers=st.lists(st.floats(0, 1, exclude_max=True), max_size=60))
def test_equals_a_binary_search(weights: list[float], numbers: list[float]) -> None:
    table = DiscreteTable(weights)
    cumulative = np.cumsum(weights)
    drawn = table.quantile(np.array(numbers))
    assert drawn.tolist() == np.searchsorted(cumulative, np.array(numbers) * cumulative[-1], side="right").tolist()


@given(weights=weights)
def test_never_draws_what_weighs_nothing(weights: list[float]) -> None:
    cumulative = np.cumsum(weights)
    edges = cumulative[cumulative < cumulative[-1]] / cumulative[-1]
    drawn = DiscreteTable(weights).quantile(np.concatenate([edges, np.nextafter(edges, 0).clip(0), [0.0, 1 - 2**-53]]))
    assert all(weights[each] > 0 for each in drawn)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1.0], [float("nan")], [float("inf"), 1.0]])
def test_wrong_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(ArgumentError):
        DiscreteTable(weights)
