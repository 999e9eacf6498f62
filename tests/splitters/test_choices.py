from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.splitters import reference

from unskew.errors import ArgumentError
from unskew.splitters import candidates

words = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(words, max_size=20), st.integers(1, 200), st.integers(1, 12), st.integers(0, 2**63 - 1), st.booleans())
def test_candidates_are_the_reference_s(hashes, workers, choices, seed, distinct):
    found = candidates(np.array(hashes, np.int64), workers, choices, seed=seed, distinct=distinct)
    assert found.tolist() == [reference.candidates(h, workers, choices, seed, distinct) for h in hashes]
    if distinct:
        assert all(len(set(row)) == min(choices, workers) for row in found.tolist())


@pytest.mark.parametrize("distinct", [False, True])
def test_every_choice_is_uniform_and_independent_of_the_others(distinct):
    drawn = candidates(np.arange(200_000), 20, 3, distinct=distinct)
    for i in range(3):
        assert np.bincount(drawn[:, i], minlength=20).std() < 3 * np.sqrt(10_000)
    together = np.histogram2d(drawn[:, 0], drawn[:, 1], bins=20)[0]
    possible = together[~np.eye(20, dtype=bool)] if distinct else together
    expected = 200_000 / possible.size
    assert ((possible - expected) ** 2 / expected).sum() < possible.size + 5 * np.sqrt(2 * possible.size)
    assert np.trace(together) == 0 if distinct else abs(np.trace(together) - 10_000) < 500


def test_another_seed_gives_other_hash_functions():
    hashes = np.arange(100_000)
    same = (candidates(hashes, 50, 2, seed=1) == candidates(hashes, 50, 2, seed=2)).mean()
    assert 0.018 < same < 0.022


def test_wrong_numbers_are_refused():
    with pytest.raises(ArgumentError, match="workers, got 0"):
        candidates(np.array([1]), 0)
    with pytest.raises(ArgumentError, match="at least one choice, got 0"):
        candidates(np.array([1]), 4, 0)
