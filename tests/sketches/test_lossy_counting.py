from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.sketches import LossyCounting

LARGEST = np.iinfo(np.int64).max
STRANGE = st.sampled_from([0, -1, LARGEST, -LARGEST - 1, *(k << 48 for k in range(1, 9)), *(k << 60 for k in range(7))])
KEYS = st.one_of(st.integers(0, 12), st.integers(0, 200), STRANGE)
STREAMS = st.lists(KEYS, max_size=400)
ERRORS = st.sampled_from([1.0, 0.5, 0.34, 1 / 3, 0.25, 0.2, 0.1, 0.07, 0.03, 0.01])


def column(keys):
    return np.array(keys, np.int64)


def held(sketch):
    table = sketch.entries().to_pydict()
    triples = zip(table["hash"], table["count"], table["max_undercount"], strict=True)
    return {key: (count, slack) for key, count, slack in triples}


def harmonic(terms):
    return sum(Fraction(1, i) for i in range(1, terms + 1))


def assert_guarantees(sketch, true, *, bound=None):
    """Check everything the class promises against the true counts."""
    entries, n = held(sketch), sum(true.values())
    assert sketch.n == n
    if bound is not None:
        assert sketch.undercount_bound <= bound
    assert sketch.undercount_bound <= Fraction(n) / sketch.window
    assert all(key in true for key in entries)
    for key, tuples in true.items():
        count, max_undercount = entries.get(key, (0, sketch.undercount_bound))
        assert count <= tuples <= count + max_undercount
        assert tuples - sketch.undercount_bound <= count
        assert max_undercount <= sketch.undercount_bound
    estimates = sketch.estimate(column([*true, 987654321]))
    assert estimates.tolist() == [entries.get(key, (0, 0))[0] for key in [*true, 987654321]]
    for threshold in (Fraction(1, 2), Fraction(1, 5), Fraction(1, 20)):
        if threshold > max(Fraction(str(sketch.error)), Fraction(1, sketch.window)):
            asked = sketch.query(float(threshold))["hash"].to_pylist()
            error = max(Fraction(str(sketch.error)), Fraction(1, sketch.window))
            assert {key for key, tuples in true.items() if tuples >= threshold * n} <= set(asked)
            assert all(true[key] >= (threshold - error) * n for key in asked)
            assert set(asked) == {key for key, (count, _) in entries.items() if count >= (threshold - error) * n}


def test_the_specification_stream_abac_aabd():
    a, b, c, d = 97, 98, 99, 100
    sketch = LossyCounting(error=0.25)
    sketch.update(column([a, b, a, c]))
    assert held(sketch) == {a: (2, 0)}
    sketch.update(column([a, a, b, d]))
    assert held(sketch) == {a: (4, 0)}


def test_a_key_that_comes_back_carries_what_it_may_have_lost():
    sketch = LossyCounting(error=0.5)
    sketch.update(column([1, 2, 3, 4, 1]))
    assert held(sketch) == {1: (1, 2)}
    sketch.update(column([1]))
    assert held(sketch) == {1: (2, 2)}
    assert sketch.undercount_bound == 3


@given(stream=STREAMS, error=ERRORS, cuts=st.lists(st.integers(0, 400), max_size=5))
@settings(max_examples=200, deadline=None)
def test_columns_cut_anywhere_equal_tuple_by_tuple(plain_lossy_counting, stream, error, cuts):
    sketch, plain = LossyCounting(error), plain_lossy_counting(error)
    ends = sorted({min(cut, len(stream)) for cut in cuts} | {len(stream)})
    start = 0
    for end in ends:
        sketch.update(column(stream[start:end]))
        plain.insert_all(stream[start:end])
        start = end
        assert held(sketch) == plain.entries
        assert (sketch.n, sketch.undercount_bound) == (plain.n, plain.n // plain.width)


@given(stream=STREAMS, error=ERRORS)
@settings(max_examples=100, deadline=None)
def test_guarantees_of_single_tuples(stream, error):
    sketch = LossyCounting(error)
    sketch.update(column(stream))
    assert_guarantees(sketch, Counter(stream), bound=len(stream) // sketch.window)


@given(stream=STREAMS, error=ERRORS)
@settings(max_examples=100, deadline=None)
def test_entries_left_when_a_window_closes(stream, error):
    sketch = LossyCounting(error)
    for start in range(0, len(stream) - sketch.window + 1, sketch.window):
        sketch.update(column(stream[start : start + sketch.window]))
        closed = sketch.n // sketch.window
        assert len(sketch) <= sketch.window * harmonic(closed)


def test_a_long_zipf_stream_equals_tuple_by_tuple(plain_lossy_counting):
    stream = np.random.default_rng(7).zipf(1.1, 150_000)
    sketch = LossyCounting(error=0.0007)
    for part in np.array_split(stream, 7):
        sketch.update(part)
    assert held(sketch) == plain_lossy_counting(0.0007).insert_all(stream.tolist()).entries


def test_many_keys_before_the_first_window_closes_are_counted_exactly():
    stream = np.random.default_rng(3).integers(-(2**63), 2**63 - 1, 50_000).repeat(3)
    sketch = LossyCounting(error=1e-6)
    sketch.update(stream)
    keys, counts = np.unique(stream, return_counts=True)
    assert held(sketch) == {key: (count, 0) for key, count in zip(keys.tolist(), counts.tolist(), strict=True)}


def test_a_key_on_the_boundary_is_not_lost_to_rounding():
    sketch = LossyCounting(error=0.1)
    sketch.update(column([1] * 7 + [2, 3, 4]))
    assert (0.8 - 0.1) * 10 > 7, "floating point would lose the key"
    assert sketch.query(threshold=0.8)["hash"].to_pylist() == [1]


def test_entries_are_ranked_by_count_then_hash():
    sketch = LossyCounting(error=0.01)
    sketch.update(column([5, 3, 3, 9, 9, -4, 8, 8, 8]))
    assert sketch.entries()["hash"].to_pylist() == [8, 3, 9, -4, 5]
    assert sketch.query(0.2)["hash"].to_pylist() == [8, 3, 9]


def test_possible_misses_no_key_above_the_bound():
    sketch = LossyCounting(error=0.25)
    sketch.update(column([1, 1, 2, 3, 2, 4, 4]))
    assert held(sketch) == {1: (2, 0), 2: (1, 1), 4: (2, 1)}
    assert sketch.possible(2)["hash"].to_pylist() == [1, 4, 2]
    assert sketch.possible(3)["hash"].to_pylist() == [4]


BATCHES = st.lists(
    st.one_of(
        st.lists(KEYS, max_size=40),
        st.lists(st.tuples(KEYS, st.one_of(st.integers(0, 3), st.integers(0, 60))), max_size=30),
    ),
    max_size=8,
)


def feed(sketch, batch, true):
    """Give a batch to the sketch, of single tuples or counted before, and to the true counts."""
    if batch and isinstance(batch[0], tuple):
        keys, counts = zip(*batch, strict=True)
        sketch.update_counts(column(keys), column(counts))
        for key, count in batch:
            if count:
                true[key] += count
    else:
        sketch.update(column(batch))
        true.update(batch)


@given(batches=BATCHES, error=ERRORS)
@settings(max_examples=120, deadline=None)
def test_guarantees_of_batches_counted_before(batches, error):
    sketch, true = LossyCounting(error), Counter()
    for batch in batches:
        windows = sketch.n // sketch.window
        feed(sketch, batch, true)
        assert_guarantees(sketch, true, bound=sketch.n // sketch.window)
        if sketch.n // sketch.window > windows and batch and isinstance(batch[0], tuple):
            assert len(sketch) <= sketch.window * harmonic(sketch.n // sketch.window + 1)


@given(stream=STREAMS, error=ERRORS)
@settings(max_examples=50, deadline=None)
def test_counted_batches_that_end_with_the_windows_equal_tuple_by_tuple(plain_lossy_counting, stream, error):
    sketch, plain = LossyCounting(error), plain_lossy_counting(error)
    for start in range(0, len(stream), sketch.window):
        part = stream[start : start + sketch.window]
        keys, counts = np.unique(column(part), return_counts=True)
        sketch.update_counts(keys, counts)
        assert held(sketch) == plain.insert_all(part).entries


def test_a_large_counted_batch_leaves_a_sketch_that_still_counts():
    rng = np.random.default_rng(5)
    keys = rng.integers(-(2**63), 2**63 - 1, 100_000)
    counts = np.ones(len(keys), np.int64)
    counts[:10] = 5_000
    sketch = LossyCounting(error=0.01)
    sketch.update_counts(keys, counts)
    assert set(held(sketch)) == set(keys[:10].tolist())
    more = rng.choice(keys[:10], 1_000)
    sketch.update(more)
    true = Counter(more.tolist())
    for key in keys[:10].tolist():
        assert sketch.estimate(column([key])).tolist() == [5_000 + true[key]]


@given(left=BATCHES, right=BATCHES, later=BATCHES, errors=st.tuples(ERRORS, ERRORS))
@settings(max_examples=100, deadline=None)
def test_guarantees_of_merged_sketches(left, right, later, errors):
    true = Counter()
    sketches = [LossyCounting(error) for error in errors]
    for sketch, batches in zip(sketches, (left, right), strict=True):
        for batch in batches:
            feed(sketch, batch, true)
    before = [sketch.to_arrow() for sketch in sketches]
    merged = sketches[0].merge(sketches[1])
    bound = sum(Fraction(sketch.n) / sketch.window for sketch in sketches)
    assert_guarantees(merged, true, bound=bound)
    assert merged.error == max(errors)
    assert len(merged) <= len(sketches[0]) + len(sketches[1])
    assert merged.to_arrow().equals(sketches[1].merge(sketches[0]).to_arrow(), check_metadata=True)
    for batch in later:
        feed(merged, batch, true)
        assert_guarantees(merged, true)
    assert [sketch.to_arrow() for sketch in sketches] == before


def test_merged_undercounts_add_what_the_other_side_may_have_missed():
    left, right = LossyCounting(error=0.5), LossyCounting(error=0.25)
    left.update(column([1, 1, 2, 1, 3]))
    right.update(column([1, 4, 4, 5, 4, 6, 7, 7, 1]))
    assert held(left) == {1: (3, 0), 3: (1, 2)}
    assert held(right) == {4: (3, 0), 7: (2, 1), 1: (1, 2)}
    merged = left.merge(right)
    assert held(merged) == {1: (4, 2), 3: (1, 2 + 2), 4: (3, 0 + 2), 7: (2, 1 + 2)}
    assert (merged.n, merged.undercount_bound, merged.error) == (14, 4, 0.5)


@given(left=STREAMS, right=STREAMS, later=STREAMS, errors=st.tuples(ERRORS, ERRORS))
@settings(max_examples=100, deadline=None)
def test_disjoint_sketches_merge_under_the_greater_bound(left, right, later, errors):
    left, right = [key & ~1 for key in left], [key | 1 for key in right]
    sketches = [LossyCounting(error) for error in errors]
    for sketch, stream in zip(sketches, (left, right), strict=True):
        sketch.update(column(stream))
    merged = sketches[0].merge(sketches[1], disjoint=True)
    bound = max(sketch.undercount_bound for sketch in sketches)
    assert_guarantees(merged, Counter(left + right), bound=bound)
    merged.update(column(later))
    assert_guarantees(merged, Counter(left + right + later))


def test_sketches_that_share_a_key_are_not_disjoint():
    left, right = LossyCounting(error=0.1), LossyCounting(error=0.1)
    left.update(column([1, 2]))
    right.update(column([3, 2]))
    with pytest.raises(ArgumentError, match=r"not disjoint, both hold a key, got 2"):
        left.merge(right, disjoint=True)


def test_a_copy_goes_its_own_way():
    sketch = LossyCounting(error=0.1)
    sketch.update(column([1, 2, 1]))
    twin = sketch.copy()
    twin.update(column([1] * 50))
    assert held(sketch) == {1: (2, 0), 2: (1, 0)}
    assert held(twin) == {1: (52, 0)}


@pytest.mark.parametrize("error", [0, -0.1, 1.5, float("nan"), float("inf"), 1e-300])
def test_an_error_that_is_no_share_is_refused(error):
    with pytest.raises(ArgumentError, match=r"error must be a share|must be a number, got nan \(in error\)"):
        LossyCounting(error)


@pytest.mark.parametrize("threshold", [0.05, 0.1])
def test_a_threshold_that_the_sketch_cannot_answer_is_refused(threshold):
    with pytest.raises(ArgumentError, match=r"more than the sketch's error 0\.1.*Hint: build"):
        LossyCounting(0.1).query(threshold)


@pytest.mark.parametrize(("error", "width"), [(1e-6, 1_000_000), (1e-4, 10_000), (1 / 3, 3), (0.1 * 3 / 1700, 5667)])
def test_windows_are_one_over_error_rounded_up(error, width):
    assert LossyCounting(error).window == width == math.ceil(1 / error)
