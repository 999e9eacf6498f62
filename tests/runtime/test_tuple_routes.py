"""Schemes as the runtime follows them, against their plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.splitters import reference

from unskew.runtime.tuple_routes import ByScheme, Head
from unskew.splitters import splitter

KEYS = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(KEYS, max_size=150), st.integers(1, 12), st.integers(0, 3), st.integers(0, 150))
def test_a_task_draws_two_candidates_independently(hashes: list[int], channels: int, source: int, cut: int) -> None:
    """The paper's H_1 and H_2, which may coincide; loads count from zero, and parts of a partition go on with them."""
    route, column = ByScheme(splitter("pkg"), Head(), channels, source), np.array(hashes, np.int64)
    chosen = [*route(column[:cut]).tolist(), *route(column[cut:]).tolist()]
    assert chosen == reference.greedy(hashes, [0] * channels, 2)


@pytest.mark.parametrize("workers", [4, 50])
def test_a_hot_key_whose_candidates_coincide_stays_on_one_channel(workers: int) -> None:
    drawn = ((key, reference.candidates(key, workers, 2)) for key in range(10_000))
    key, (channel, _) = next((key, two) for key, two in drawn if two[0] == two[1])
    as_in_the_paper = ByScheme(splitter("pkg"), Head(), workers, 0)(np.full(100, key))
    assert set(as_in_the_paper.tolist()) == {channel}
    kept_apart = ByScheme(splitter("pkg", distinct=True), Head(), workers, 0)(np.full(100, key))
    assert sorted(np.bincount(kept_apart).tolist())[-2:] == [50, 50]
