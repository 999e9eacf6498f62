from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.sketches import LossyCounting, SlidingLossyCounting

SHAPES = [(24, 0.25, 3), (12, 0.5, 2), (30, 0.2, 4), (36, 0.34, 5), (8, 1.0, 9)]


def column(keys):
    return np.array(keys, np.int64)


def held(sketch):
    table = sketch.entries().to_pydict()
    triples = zip(table["hash"], table["count"], table["max_undercount"], strict=True)
    return {key: (count, slack) for key, count, slack in triples}


@pytest.mark.parametrize(("window", "error", "counters"), SHAPES)
def test_coverage_at_every_n(plain_lossy_counting, window, error, counters):
    stream = np.random.default_rng(1).zipf(1.3, 12 * window) % 50
    sketch = SlidingLossyCounting(window, error, counters)
    assert (sketch.window, sketch.stagger * (counters - 1)) == (window, window)
    for n in range(1, len(stream) + 1):
        sketch.update(stream[n - 1 : n])
        assert sketch.n == n
        if n < window:
            assert sketch.size == n
        else:
            assert sketch.size == window + n % sketch.stagger
            assert window <= sketch.size < window * counters / (counters - 1)
        covered = stream[n - sketch.size : n].tolist()
        assert held(sketch) == plain_lossy_counting(error).insert_all(covered).entries


@given(
    stream=st.lists(st.integers(0, 9), max_size=300),
    cuts=st.lists(st.integers(0, 300), max_size=6),
    shape=st.sampled_from(SHAPES),
)
@settings(max_examples=100, deadline=None)
def test_columns_cut_anywhere_equal_tuple_by_tuple(plain_sliding_lossy_counting, stream, cuts, shape):
    sketch, plain = SlidingLossyCounting(*shape), plain_sliding_lossy_counting(*shape)
    start = 0
    for end in sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)}):
        sketch.update(column(stream[start:end]))
        for key in stream[start:end]:
            plain.insert(key)
        start = end
        if end:
            assert held(sketch) == plain.active.entries
            assert sketch.size == plain.active.n


@given(
    batches=st.lists(st.lists(st.integers(0, 9), max_size=60), max_size=30),
    counted=st.lists(st.booleans(), min_size=30, max_size=30),
    shape=st.sampled_from(SHAPES),
)
@settings(max_examples=100, deadline=None)
def test_counted_batches_cover_the_window_and_keep_the_guarantees(batches, counted, shape):
    sketch, stream, largest = SlidingLossyCounting(*shape), [], 0
    window, _, counters = shape
    for batch, before in zip(batches, counted, strict=False):
        if before:
            keys, counts = np.unique(column(batch), return_counts=True)
            sketch.update_counts(keys, counts)
            largest = max(largest, len(batch))
        else:
            sketch.update(column(batch))
        stream += batch
        n = len(stream)
        assert sketch.n == n
        assert min(n, window) <= sketch.size < window * counters / (counters - 1) + max(largest, 1)
        true = Counter(stream[n - sketch.size :])
        bound = sketch.size // sketch.active.window
        for key in range(10):
            estimate = int(sketch.estimate(column([key]))[0])
            assert true[key] - bound <= estimate <= true[key]


def test_a_counted_batch_longer_than_the_whole_cycle_starts_every_counter_afresh():
    sketch = SlidingLossyCounting(window=100, error=0.1)
    sketch.update(np.full(130, 7))
    sketch.update_counts(column([1, 2]), column([600, 400]))
    assert sketch.size == 1000
    assert held(sketch) == {1: (600, 0), 2: (400, 0)}


def test_keys_that_cooled_down_are_forgotten():
    sketch = SlidingLossyCounting(window=1000, error=0.01)
    sketch.update(np.full(5000, 1))
    assert sketch.query(0.5)["hash"].to_pylist() == [1]
    sketch.update(np.full(1499, 2))
    assert held(sketch) == {2: (1499, 0)}


def test_a_window_is_rounded_up_until_the_stagger_is_whole_windows():
    sketch = SlidingLossyCounting(window=1000, error=0.003)
    assert sketch.active.window == 334
    assert (sketch.window, sketch.stagger) == (1336, 668)
    again = SlidingLossyCounting(sketch.window, error=0.003)
    assert again.window == sketch.window


def test_merge_covers_what_both_cover():
    left, right = SlidingLossyCounting(20, 0.1), SlidingLossyCounting(40, 0.1)
    left.update(column([1] * 100 + [2] * 25))
    right.update(column([3] * 200 + [2] * 45))
    merged = left.merge(right)
    assert isinstance(merged, LossyCounting)
    assert merged.n == left.size + right.size == 25 + 45
    assert merged.query(0.9)["hash"].to_pylist() == [2]
    assert merged.undercount_bound == left.active.undercount_bound + right.active.undercount_bound
    assert held(merged) == {2: (25 + 45, 0)}


@pytest.mark.parametrize(("window", "counters", "message"), [(0, 3, "at least one tuple"), (10, 1, "2 counters")])
def test_shapes_that_cannot_slide_are_refused(window, counters, message):
    with pytest.raises(ArgumentError, match=message):
        SlidingLossyCounting(window, 0.1, counters)
