"""Heavy hitters against exact counts and the bounds of SpaceSaving."""

from __future__ import annotations

import pickle
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError, KeyTypeError
from unskew.hashing import hash_keys, xxhash64
from unskew.operators import HeavyHitters
from unskew.sketches import SpaceSaving
from unskew.splitters import splitter
from unskew.state import group_rows
from unskew.testing import check_operator, disturbed, run


def counted(batches: list[pa.Table]) -> dict[Any, Counter[Any]]:
    counts: dict[Any, Counter[Any]] = {}
    for row in pa.concat_tables(batches).to_pylist():
        counts.setdefault(row["shop"], Counter()).update([row["word"]] if row["word"] is not None else [])
    return counts


def assert_within_bounds(row: dict[str, Any], true: Counter[Any], capacity: int) -> None:
    n = true.total()
    assert row["n"] == n
    held = {entry["item"]: entry for entry in row["top"]}
    assert len(held) == len(row["top"]) == min(capacity, len(true))
    for item, entry in held.items():
        assert entry["count"] - entry["error"] <= true[item] <= entry["count"]
        assert entry["error"] <= n / capacity
    assert all(item in held for item, count in true.items() if count > n / capacity)
    counts = [entry["count"] for entry in row["top"]]
    assert counts == sorted(counts, reverse=True)
    assert sum(counts) <= n


ROW = st.fixed_dictionaries(
    {"shop": st.sampled_from(["a", "b", None]), "word": st.none() | st.sampled_from([*"uvwxyz", "u", "u", "v"])}
)
MAPS = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))
SCHEMA = pa.schema({"shop": pa.string(), "word": pa.string()})


@given(batches=st.lists(st.lists(ROW, max_size=25), min_size=1, max_size=4), capacity=st.integers(1, 7))
@settings(max_examples=15)
def test_bounds_hold_after_every_batch(batches: list[list[dict[str, Any]]], capacity: int) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in batches]
    result = run(HeavyHitters("word", capacity=capacity), tables, key="shop", seed=capacity)
    for number, output in enumerate(result.outputs, start=1):
        true = counted(tables[:number])
        assert {row["shop"] for row in output.to_pylist()} == {row["shop"] for row in batches[number - 1]}
        for row in output.to_pylist():
            assert_within_bounds(row, true[row["shop"]], capacity)


def stream(seed: int, exponent: float | None, batches: int = 5, rows: int = 400) -> list[pa.Table]:
    """Words that become popular and unpopular again."""
    random, tables = np.random.default_rng(seed), []
    for batch in range(batches):
        words = random.integers(0, 60, rows) if exponent is None else random.zipf(exponent, rows) % 60
        words = (words + 10 * (batch // 2)) % 60
        word = pa.array(np.char.add("w", words.astype(str)), pa.string(), mask=random.random(rows) < 0.05)
        tables.append(pa.table({"shop": random.integers(0, 4, rows), "word": word}))
    return tables


@pytest.mark.parametrize("exponent", [None, 1.3], ids=["uniform", "zipf"])
def test_bounds_hold_while_keys_move(exponent: float | None) -> None:
    batches = stream(1, exponent)
    steps = disturbed(batches, key="shop", channels=3, seed=5)
    result = run(HeavyHitters("word", capacity=20), steps, key="shop", channels=3, seed=5)
    for row in result.outputs[-1].to_pylist():
        assert_within_bounds(row, counted(batches)[row["shop"]], 20)


def test_nothing_is_wrong_while_there_is_room() -> None:
    batches = stream(2, 1.3)
    for row in run(HeavyHitters("word", capacity=60), batches, key="shop").outputs[-1].to_pylist():
        assert {entry["item"]: entry["count"] for entry in row["top"]} == counted(batches)[row["shop"]]
        assert all(entry["error"] == 0 for entry in row["top"])


def test_is_never_wider_than_space_saving_on_the_same_parts() -> None:
    """Each part is counted; the merged error is at most that of SpaceSaving sketches of the same parts, merged."""
    parts, capacity = stream(3, 1.1), 25
    operator = HeavyHitters("word", capacity=capacity).bind(parts[0].schema, ("shop",))
    one_shop = [part.set_column(0, "shop", pa.array(np.zeros(part.num_rows, np.int64))) for part in parts]
    lifted = [operator.combine(part, group_rows(part, hash_keys(part, "shop"), ["shop"]))[0] for part in one_shop]
    both = pa.concat_tables(lifted)
    groups = group_rows(both, hash_keys(both, "shop"), ["shop"])
    values = operator.merge(both.select(operator.value_schema.names), groups)
    sketch = SpaceSaving(capacity)
    for part in parts:
        one = SpaceSaving(capacity)
        one.update(xxhash64([part["word"].drop_null()], names=["word"]))
        sketch = sketch.merge(one)
    errors = {row["hash"]: row["error"] for row in sketch.entries().to_pylist()}
    hashes = xxhash64([values["items"].combine_chunks().flatten()], names=["word"]).tolist()
    shared = [(errors[h], e) for h, e in zip(hashes, values["errors"].to_pylist()[0], strict=True) if h in errors]
    assert len(shared) > capacity // 2
    assert all(ours <= theirs for theirs, ours in shared)
    assert values["floor"].to_pylist()[0] <= sketch.least_count


def test_under_partial_key_grouping_an_item_is_wrong_by_two_parts_only() -> None:
    """A sketch per worker; an item's error is bounded by the two workers that may have seen it (spec, section 6)."""
    random, workers, capacity = np.random.default_rng(4), 8, 20
    words = random.zipf(1.2, 20_000) % 2000
    hashes = xxhash64([pa.array(words)], names=["word"])
    worker = splitter("pkg").route(hashes, np.zeros(workers)).channels
    rows = pa.table({"worker": worker, "word": words})
    sketches = run(
        HeavyHitters("word", capacity=capacity), [rows.slice(at, 5000) for at in range(0, 20_000, 5000)], key="worker"
    )
    held = {row["key.worker"]: row for row in sketches.state.to_pylist()}
    assert len(held) == workers
    for word, true in Counter(words.tolist()).most_common(15):
        candidates = set(worker[words == word].tolist())
        assert len(candidates) <= 2
        count = error = 0
        for candidate in candidates:
            row = held[candidate]
            known = dict(
                zip(row["value.items"], zip(row["value.counts"], row["value.errors"], strict=True), strict=True)
            )
            part_count, part_error = known.get(word, (row["value.floor"], row["value.floor"]))
            count, error = count + part_count, error + part_error
            assert part_error <= row["value.n"] / capacity
        assert count - error <= true <= count


def overlap(expected: pa.Table, got: pa.Table) -> bool:
    """Two answers agree if each item may have the same true count in both, and both saw the same number of items."""
    left = {row["shop"]: row for row in expected.to_pylist()}
    right = {row["shop"]: row for row in got.to_pylist()}
    if left.keys() != right.keys() or any(left[shop]["n"] != right[shop]["n"] for shop in left):
        return False
    for shop in left:
        ours, theirs = ({entry["item"]: entry for entry in side[shop]["top"]} for side in (left, right))
        for item in ours.keys() & theirs.keys():
            if ours[item]["count"] < theirs[item]["count"] - theirs[item]["error"]:
                return False
            if theirs[item]["count"] < ours[item]["count"] - ours[item]["error"]:
                return False
    return True


def test_has_the_properties_of_an_operator() -> None:
    check_operator(
        HeavyHitters("word", capacity=10), stream(7, 1.3, batches=3, rows=60), key="shop", same=overlap, seeds=1
    )
    # with room for all it is exact, so that everything must be equal
    check_operator(HeavyHitters("word", capacity=60), stream(8, 1.3, batches=2, rows=40), key="shop", seeds=1)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: HeavyHitters("word", capacity=0), ArgumentError, "at least one entry"),
        (lambda: HeavyHitters("word", capacity=5, k=6), ArgumentError, "at least 1 and at most 5"),
        (lambda: run(HeavyHitters("x"), [pa.table({"k": [1]})], key="k"), ColumnError, "no column"),
        (lambda: run(HeavyHitters("x"), [pa.table({"k": [1], "x": MAPS})], key="k"), KeyTypeError, "x"),
        (lambda: run(HeavyHitters("x"), [pa.table({"top": [1], "x": [1]})], key="top"), ArgumentError, "name of a key"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    operator = HeavyHitters("word", capacity=5, k=2)
    assert repr(operator) == "HeavyHitters('word', capacity=5, k=2)"
    assert pickle.loads(pickle.dumps(operator)) == operator != HeavyHitters("word", capacity=5)
