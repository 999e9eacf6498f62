import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.workloads.discrete import DiscreteTable

weights = st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1e6)), min_size=1, max_size=60).filter(any)


@settings(deadline=None)  # the first call compiles
@given(weights=weights, numbers=st.lists(st.floats(0, 1, exclude_max=True), max_size=60))
def test_equals_a_binary_search(weights: list[float], numbers: list[float]) -> None:
    table = DiscreteTable(weights)
    cumulative = np.cumsum(weights)
    drawn = table.quantile(np.array(numbers))
    assert drawn.tolist() == np.searchsorted(cumulative, np.array(numbers) * cumulative[-1], side="right").tolist()


@settings(deadline=None)  # the first call compiles
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


def test_a_number_on_an_edge_belongs_to_the_next_key() -> None:
    weights = [1, 1, 6, 0, 8, 3, 13]  # sums are exact, and some edges lie inside a cell of the guide table
    edges = np.cumsum(weights)[:-1] / 32
    assert DiscreteTable(weights).quantile(edges).tolist() == [1, 2, 4, 4, 5, 6]
    assert DiscreteTable(weights).quantile(np.nextafter(edges, 0)).tolist() == [0, 1, 2, 2, 4, 5]


def test_rounding_around_the_cells_of_the_guide_table_does_no_harm() -> None:
    tenths = np.random.default_rng(0).integers(1, 9, (3000, 11)) / 10  # many edges all but coincide with cells
    for weights in tenths:
        cumulative = np.cumsum(weights)
        edges = cumulative[:-1] / cumulative[-1]
        near = np.concatenate([edges, np.nextafter(edges, 0), np.nextafter(edges, 1)])
        expected = np.searchsorted(cumulative, near * cumulative[-1], side="right")
        assert DiscreteTable(weights).quantile(near).tolist() == expected.tolist()
