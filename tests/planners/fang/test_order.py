"""The lazily sorted order equals a full sort, however far and in whatever steps somebody looks."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.planners.fang.order import READY, START, Items, Order, _kernel_group, _kernel_reach, priorities


def build(rng, n, segments, exponent, levels):
    cost = rng.integers(0, levels, n).astype(float)
    state = rng.integers(0, levels, n).astype(float)
    segment_of = rng.integers(0, segments, n).astype(np.int32)
    grouped, start = _kernel_group(np.arange(n, dtype=np.int32), segment_of, segments)
    order = Order.of_size(n, segments, exponent)
    order.put(0, grouped, start, 0)
    return Items.of(cost, state, segment_of, segment_of), order, segment_of


@pytest.mark.parametrize("levels", [2, 10, 10**6])
@pytest.mark.parametrize("exponent", [np.nan, 1.0, 1.5])
def test_any_prefix_is_that_of_a_full_sort(levels, exponent):
    rng = np.random.default_rng(levels)
    for _ in range(20):
        n = int(rng.choice([1, 5, 30, 500, 5000]))
        items, order, segment_of = build(rng, n, 3, exponent, levels)
        value = items.cost if np.isnan(exponent) else priorities(items.cost, items.state, exponent)
        for segment in range(3):
            ids = np.flatnonzero(segment_of == segment)
            expected = ids[np.lexsort((ids, -value[ids]))]
            for position in np.sort(rng.integers(0, max(1, len(ids)), 6)):
                if position < len(ids):
                    _kernel_reach(order, items.cost, items.state, segment, position)
                    ready, start = order.marks[segment, READY], order.marks[segment, START]
                    assert ready > position
                    assert order.ids[start : start + ready].tolist() == expected[:ready].tolist()


def test_looking_at_the_top_leaves_most_of_the_rest_unsorted():
    rng = np.random.default_rng(0)
    items, order, _ = build(rng, 100_000, 1, np.nan, 10**6)
    _kernel_reach(order, items.cost, items.state, 0, 10)
    assert order.marks[0, READY] < 100


def test_descending_and_ascending_input_do_not_exhaust_the_stack():
    for cost in (np.arange(50_000.0), np.arange(50_000.0)[::-1].copy(), np.ones(50_000)):
        order = Order.of_size(50_000, 1, np.nan)
        order.put(0, np.arange(50_000, dtype=np.int32), np.array([0, 50_000]), 0)
        _kernel_reach(order, cost, cost, 0, 49_999)
        assert (np.diff(order.values) <= 0).all()
