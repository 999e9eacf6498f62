"""Sorting within groups, against a sort of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.operators.ranking import ranked


@pytest.mark.parametrize("rows", [0, 1, 7, 400])
@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_equals_a_lexicographic_sort(rows: int, kind: type) -> None:
    """Of four groups one has most rows, so that few and many are both sorted; ties abound."""
    random = np.random.default_rng(rows)
    group = np.where(random.random(rows) < 0.8, 2, random.integers(0, 4, rows))
    first, then = random.integers(-5, 5, rows).astype(kind), random.integers(-5, 5, rows)
    order, starts = ranked(group, 4, first, then)
    assert order.tolist() == np.lexsort((then, first, group)).tolist()
    assert starts.tolist() == [int((group < number).sum()) for number in range(5)]
