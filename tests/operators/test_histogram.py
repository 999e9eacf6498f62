"""Histograms against the paper's worked example, a plain twin of its algorithms, and exact counts."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash_keys
from unskew.operators import Histogram
from unskew.operators.histogram import kernel_insert, kernel_sum, kernel_uniform
from unskew.state import group_rows
from unskew.testing import check_operator, disturbed, run

Bins = list[tuple[float, int]]


def shrunk(bins: Bins, most: int) -> Bins:
    """Fuse the closest two until there are few enough."""
    bins = sorted(bins)
    while len(bins) > most:
        i = min(range(len(bins) - 1), key=lambda i: bins[i + 1][0] - bins[i][0])
        (p, m), (q, k) = bins[i : i + 2]
        bins[i : i + 2] = [(p + (q - p) * (k / (m + k)), m + k)]
    return bins


def updated(bins: Bins, value: float, most: int) -> Bins:
    if any(centre == value for centre, _ in bins):
        return [(centre, count + (centre == value)) for centre, count in bins]
    return shrunk([*bins, (value, 1)], most)


def at_most(bins: Bins, value: float) -> float:
    """Algorithm 3 of the paper."""
    i = max(i for i in range(len(bins)) if bins[i][0] <= value)
    (p, m), (q, k) = bins[i : i + 2]
    height = m + (k - m) / (q - p) * (value - p)
    return (m + height) / 2 * (value - p) / (q - p) + sum(count for _, count in bins[:i]) + m / 2


def cuts(bins: Bins, parts: int) -> list[float]:
    """Algorithm 4 of the paper."""
    found = []
    total = sum(count for _, count in bins)
    sums = [sum(count for _, count in bins[:i]) + bins[i][1] / 2 for i in range(len(bins))]
    for part in range(1, parts):
        wanted = part / parts * total
        i = max((i for i in range(len(bins) - 1) if sums[i] <= wanted), default=0)
        (p, m), (q, k) = bins[i : i + 2]
        a, b, c = k - m, 2 * m, -2 * (wanted - sums[i])
        z = -c / b if a == 0 else (-b + math.sqrt(max(0.0, b * b - 4 * a * c))) / (2 * a)
        found.append(p + (q - p) * z)
    return found


def arrays(bins: Bins) -> tuple[Any, Any]:
    return np.array([centre for centre, _ in bins]), np.array([count for _, count in bins])


# the paper's appendix A: seven numbers in five bins, then a second histogram merged in
FIRST, SECOND = [23, 19, 10, 16, 36, 2, 9], [32, 30, 45]
AFTER_FIRST = [(2, 1), (9.5, 2), (17.5, 2), (23, 1), (36, 1)]
MERGED = [(2, 1), (9.5, 2), (19.33, 3), (32.67, 3), (45, 1)]


def bins_of(row: dict[str, Any]) -> Bins:
    return list(zip(row["centres"], row["counts"], strict=True))


def test_the_example_of_the_paper() -> None:
    operator = Histogram("x", bins=5).bind(pa.schema({"k": pa.int64(), "x": pa.int64()}), ("k",))
    parts = []
    for values in (FIRST, SECOND):
        rows = pa.table({"k": [1] * len(values), "x": values})
        parts.append(operator.combine(rows, group_rows(rows, hash_keys(rows, "k"), ["k"]))[0])
    assert bins_of(parts[0].to_pylist()[0]) == AFTER_FIRST
    both = pa.concat_tables(parts)
    groups = group_rows(both, hash_keys(both, "k"), ["k"])
    (merged,) = operator.merge(both.select(["centres", "counts"]), groups).to_pylist()
    assert [(round(centre, 2), count) for centre, count in bins_of(merged)] == MERGED
    assert round(kernel_sum(*arrays(bins_of(merged)), 15.0, False), 2) == 3.28
    # by the formulas, worked by hand: 9.5 + 9.8333 * (sqrt(4 + 2.6667) - 2) and 19.3333 + 13.3333 * 2.1667 / 3
    assert np.round(kernel_uniform(*arrays(bins_of(merged)), 3), 2).tolist() == [15.22, 28.96]


VALUES = st.lists(st.integers(-20, 20) | st.floats(-100, 100, width=32), min_size=1, max_size=40)


@given(values=VALUES, most=st.integers(1, 8))
@settings(max_examples=60)
def test_kernels_equal_their_plain_twins(values: list[float], most: int) -> None:
    centres, counts, used, bins = np.empty(most + 1), np.empty(most + 1, np.int64), 0, list[tuple[float, int]]()
    for value in values:
        used = kernel_insert(centres, counts, used, float(value), most)
        bins = updated(bins, float(value), most)
    assert list(zip(centres[:used].tolist(), counts[:used].tolist(), strict=True)) == bins
    assert sum(count for _, count in bins) == len(values)
    assert sum(centre * count for centre, count in bins) == pytest.approx(math.fsum(values), abs=1e-6)
    if used > 1:
        for value in np.linspace(bins[0][0], bins[-1][0], 7)[:-1]:
            assert kernel_sum(centres[:used], counts[:used], value, False) == pytest.approx(at_most(bins, value))


@given(counts=st.lists(st.integers(1, 50), min_size=2, max_size=9), parts=st.integers(2, 6))
def test_uniform_equals_its_plain_twin_and_undoes_sum(counts: list[int], parts: int) -> None:
    bins = [(float(i * i), count) for i, count in enumerate(counts)]
    found, total = kernel_uniform(*arrays(bins), parts), sum(counts)
    for part, cut in enumerate(found.tolist(), start=1):
        wanted = total * part / parts
        if counts[0] / 2 <= wanted < total - counts[-1] / 2:
            assert kernel_sum(*arrays(bins), cut, False) == pytest.approx(wanted)
            assert cut == pytest.approx(cuts(bins, parts)[part - 1])


def test_few_values_are_counted_exactly() -> None:
    centres, counts = arrays([(0.0, 10), (1.0, 1000)])
    assert [kernel_sum(centres, counts, value, True) for value in (-1.0, 0.0, 0.5, 1.0)] == [0, 10, 10, 1010]


def stream(seed: int, batches: int = 5, rows: int = 300) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "k": pa.array((random.zipf(1.4, rows) + batch) % 7, mask=random.random(rows) < 0.05),
                "x": pa.array(random.normal(batch / 4, 1.0, rows), mask=random.random(rows) < 0.05),
            }
        )
        for batch in range(batches)
    ]


def test_quantiles_are_close_while_keys_move() -> None:
    batches = stream(0)
    steps = disturbed(batches, key="k", channels=3, seed=1)
    state = run(Histogram("x", bins=40), steps, key="k", channels=3, seed=1).state.to_pylist()
    rows = pa.concat_tables(batches).to_pylist()
    for held in state:
        values = np.sort([row["x"] for row in rows if row["k"] == held["key.k"] and row["x"] is not None])
        bins = list(zip(held["value.centres"], held["value.counts"], strict=True))
        assert sum(count for _, count in bins) == len(values)
        for cut in np.quantile(values, [0.1, 0.5, 0.9]):
            share = kernel_sum(*arrays(bins), float(cut), len(bins) < 40) / len(values)
            assert share == pytest.approx(np.mean(values <= cut), abs=0.05)


def test_nulls_and_what_is_not_finite_are_passed_over() -> None:
    rows = pa.table({"k": ["a", "a", "a", "b"], "x": pa.array([1.5, None, math.inf, math.nan])})
    assert run(Histogram("x"), [rows], key="k").outputs[0].to_pylist() == [
        {"k": "a", "centres": [1.5], "counts": [1]},
        {"k": "b", "centres": [], "counts": []},
    ]


def test_has_the_properties_of_an_operator() -> None:
    def alike(expected: pa.Table, got: pa.Table) -> bool:
        left, right = ({row["k"]: bins_of(row) for row in side.to_pylist()} for side in (expected, got))
        if left.keys() != right.keys():
            return False
        same_rows = all(sum(c for _, c in left[k]) == sum(c for _, c in right[k]) for k in left)
        means = [[sum(p * c for p, c in side[k]) for k in left] for side in (left, right)]
        return same_rows and np.allclose(*means, atol=1e-6)

    batches = stream(3, batches=2, rows=60)
    check_operator(Histogram("x", bins=8), batches, key="k", same=alike, seeds=1)
    # with a bin for every value it is exact, so that everything must be equal
    check_operator(Histogram("x", bins=200), batches, key="k", seeds=1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Histogram("x", bins=0), ArgumentError, "at least one bin"),
        (lambda: run(Histogram("y"), [pa.table({"k": [1], "x": [1]})], key="k"), ColumnError, "no column"),
        (lambda: run(Histogram("x"), [pa.table({"k": [1], "x": ["a"]})], key="k"), ColumnError, "on numbers"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    operator = Histogram("x", bins=7)
    assert repr(operator) == "Histogram('x', bins=7)"
    assert pickle.loads(pickle.dumps(operator)) == operator != Histogram("x")
