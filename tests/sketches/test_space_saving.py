from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.sketches import SpaceSaving, combined_estimates
from unskew.sketches._hash_table import home

KEYS = st.one_of(st.integers(0, 8), st.integers(0, 60), st.integers(-(2**63), 2**63 - 1))
BATCHES = st.lists(
    st.one_of(
        st.lists(KEYS, max_size=60),
        st.lists(st.tuples(KEYS, st.one_of(st.integers(0, 3), st.integers(0, 50))), max_size=30),
    ),
    max_size=6,
)
CAPACITIES = st.integers(1, 12)


def column(keys):
    return np.array(keys, np.int64)


def in_order(sketch):
    return [list(row.values()) for row in sketch.to_arrow().to_pylist()]


def colliding(slots, near, wanted):
    """Hashes whose search begins at one of the last slots of a table, or at the first."""
    table = np.empty(slots, np.int32)
    found = (key for key in range(10**6) if int(home(table, np.int64(key))) in near)
    return [next(found) for _ in range(wanted)]


def rows(batch):
    return batch if batch and isinstance(batch[0], tuple) else [(key, 1) for key in batch]


def feed(sketch, batch):
    if batch and isinstance(batch[0], tuple):
        keys, counts = zip(*batch, strict=True)
        sketch.update_counts(column(keys), column(counts))
    else:
        sketch.update(column(batch))


def totals(*streams):
    true = Counter()
    for batches in streams:
        for batch in batches:
            for key, count in rows(batch):
                true[key] += count
    return +true


def assert_guarantees(sketch, true):
    """Check everything the class promises against the true counts."""
    entries = {key: (count, error) for key, count, error in in_order(sketch)}
    n = sum(true.values())
    assert sketch.n == n
    assert len(entries) == len(sketch) <= sketch.capacity
    assert sum(count for count, _ in entries.values()) <= n
    assert sketch.least_count * sketch.capacity <= n
    for key, tuples in true.items():
        count, error = entries.get(key, (sketch.least_count, sketch.least_count))
        assert count - error <= tuples <= count
        assert error <= sketch.least_count
    asked = column([*true, 987654321])
    for answers, position in ((sketch.estimate(asked), 0), (sketch.error_of(asked), 1)):
        expected = [entries.get(key, (sketch.least_count,) * 2)[position] for key in asked.tolist()]
        assert answers.tolist() == expected
    for threshold in (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10)):
        if threshold * sketch.capacity > 1:
            returned = sketch.query(float(threshold))["hash"].to_pylist()
            assert {key for key, tuples in true.items() if tuples >= threshold * n} <= set(returned)
            assert all(true[key] >= threshold * n - Fraction(n, sketch.capacity) for key in returned)


def test_a_small_stream_by_hand():
    sketch = SpaceSaving(capacity=2)
    sketch.update(column([1, 1, 2, 3]))
    assert in_order(sketch) == [[1, 2, 0], [3, 2, 1]]
    sketch.update(column([4]))
    assert in_order(sketch) == [[4, 3, 2], [3, 2, 1]], "of equal counts the first entry gives way"
    sketch.update_counts(column([3, 5]), column([4, 10]))
    assert in_order(sketch) == [[5, 13, 3], [3, 6, 1]]
    assert (sketch.n, sketch.least_count) == (19, 6)


@given(batches=BATCHES, capacity=CAPACITIES)
@settings(max_examples=120, deadline=None)
def test_columns_equal_tuple_by_tuple_and_keep_the_guarantees(plain_space_saving, batches, capacity):
    sketch, plain = SpaceSaving(capacity), plain_space_saving(capacity)
    for index, batch in enumerate(batches):
        feed(sketch, batch)
        for key, weight in rows(batch):
            plain.insert(key, weight)
        assert in_order(sketch) == plain.entries
        assert sum(count for _, count, _ in plain.entries) == sketch.n
        assert_guarantees(sketch, totals(batches[: index + 1]))


@given(picks=st.lists(st.integers(0, 23), max_size=300), capacity=st.sampled_from([3, 4, 7, 8]))
@settings(max_examples=100, deadline=None)
def test_hashes_that_collide_are_told_apart(plain_space_saving, picks, capacity):
    slots = {3: 16, 4: 16, 7: 32, 8: 32}[capacity]
    keys = colliding(slots, {slots - 2, slots - 1, 0}, 24)
    sketch, plain = SpaceSaving(capacity), plain_space_saving(capacity)
    for pick in picks:
        plain.insert(keys[pick])
    sketch.update(column([keys[pick] for pick in picks]))
    assert len(sketch._entries.slots) == slots
    assert in_order(sketch) == plain.entries
    assert_guarantees(sketch, Counter(keys[pick] for pick in picks))


def test_a_long_zipf_stream_equals_tuple_by_tuple(plain_space_saving):
    stream = np.random.default_rng(11).zipf(1.2, 30_000)
    sketch, plain = SpaceSaving(50), plain_space_saving(50)
    for part in np.array_split(stream, 5):
        sketch.update(part)
    for key in stream.tolist():
        plain.insert(key)
    assert in_order(sketch) == plain.entries


def test_top_lists_the_greatest_counts_first_and_equal_ones_by_hash():
    sketch = SpaceSaving(10)
    sketch.update(column([5, 3, 3, 9, 9, -4, 8, 8, 8]))
    assert sketch.top(3)["hash"].to_pylist() == [8, 3, 9]
    assert sketch.top(99)["hash"].to_pylist() == [8, 3, 9, -4, 5]


@given(parts=st.lists(BATCHES, min_size=2, max_size=4), capacities=st.lists(CAPACITIES, min_size=4, max_size=4))
@settings(max_examples=80, deadline=None)
def test_guarantees_of_merged_sketches(parts, capacities):
    sketches = [SpaceSaving(capacity) for capacity in capacities[: len(parts)]]
    for sketch, batches in zip(sketches, parts, strict=True):
        for batch in batches:
            feed(sketch, batch)
    merged, seen = sketches[0], [parts[0]]
    for sketch, batches in zip(sketches[1:], parts[1:], strict=True):
        before = (in_order(merged), in_order(sketch))
        both = merged.merge(sketch)
        assert in_order(both) == in_order(sketch.merge(merged))
        assert both.capacity == min(merged.capacity, sketch.capacity)
        assert (in_order(merged), in_order(sketch)) == before
        merged, seen = both, [*seen, batches]
        assert_guarantees(merged, totals(*seen))
    for batch in parts[0]:
        feed(merged, batch)
        seen = [*seen, [batch]]
        assert_guarantees(merged, totals(*seen))


def test_merge_adds_the_least_count_for_a_key_that_one_side_does_not_hold():
    left, right = SpaceSaving(2), SpaceSaving(2)
    left.update_counts(column([1, 2]), column([9, 4]))
    right.update_counts(column([1, 3]), column([5, 2]))
    assert in_order(left.merge(right)) == [[1, 14, 0], [2, 6, 2]]
    assert combined_estimates([left, right]).to_pylist() == [
        {"hash": 1, "count": 14, "error": 0},
        {"hash": 2, "count": 6, "error": 2},
        {"hash": 3, "count": 6, "error": 4},
    ]


@pytest.mark.parametrize(("choices", "most_terms"), [(1, 1), (2, 2), (None, 8)])
def test_combined_error_has_one_term_for_each_channel_that_may_hold_the_key(choices, most_terms):
    rng = np.random.default_rng(2)
    channels, stream = 8, rng.zipf(1.2, 60_000) % 5_000
    if choices is None:
        candidates, channel = None, rng.integers(0, channels, len(stream))
    else:

        def candidates(hashes):
            return np.stack([hashes % channels, (hashes // channels) % channels][:choices], axis=1)

        pairs = candidates(stream)
        channel = pairs[np.arange(len(stream)), rng.integers(0, choices, len(stream))]
    sketches = [SpaceSaving(200) for _ in range(channels)]
    for index, sketch in enumerate(sketches):
        sketch.update(stream[channel == index])
    least = np.array([sketch.least_count for sketch in sketches])
    assert (least > 0).all()

    table = combined_estimates(sketches, candidates)
    hashes, counts, errors = (table[name].to_numpy() for name in ("hash", "count", "error"))
    true = np.bincount(stream, minlength=5_000)[hashes]
    if choices is None:
        allowed = np.full(len(hashes), least.sum())
    else:
        allowed = np.array([sum(least[sorted(set(row))]) for row in candidates(hashes).tolist()])
    assert (counts - errors <= true).all()
    assert (true <= counts).all()
    assert (errors <= allowed).all()
    assert (errors <= sum(sorted(len(stream[channel == index]) for index in range(8))[-most_terms:]) / 200).all()
    assert set(hashes.tolist()) == {key for sketch in sketches for key in sketch.entries()["hash"].to_pylist()}


def test_a_key_held_where_it_cannot_be_is_refused():
    left, right = SpaceSaving(4), SpaceSaving(4)
    left.update(column([1, 2]))
    with pytest.raises(ArgumentError, match="channel 0 holds a key of which it is no candidate, got 2"):
        combined_estimates([left, right], candidates=lambda hashes: hashes[:, None] - 1)


@pytest.mark.parametrize("threshold", [0.05, 0.1])
def test_a_threshold_that_the_sketch_cannot_answer_is_refused(threshold):
    with pytest.raises(ArgumentError, match=r"more than 1 / capacity = 1/10.*Hint: build"):
        SpaceSaving(10).query(threshold)


@pytest.mark.parametrize("capacity", [0, -1, 2**40])
def test_a_capacity_out_of_range_is_refused(capacity):
    with pytest.raises(ArgumentError, match="capacity"):
        SpaceSaving(capacity)
