"""Keyed state against a plain dictionary: random operations, crashes, colliding hashes, with and without a cache."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, StateError
from unskew.state import Groups, KeyedState, LocalCache, MemoryStore, parts
from unskew.state.compaction import Layout
from unskew.state.manifest import Manifest

KEYS = pa.schema({"name": pa.string(), "spot": pa.float64()})
VALUES = pa.schema({"n": pa.int64(), "tags": pa.list_(pa.string()), "until": pa.int64()})
SLOTS = 7
TINY = Layout(rows_per_chunk=8, fan_out=2, spare_rows=4, cleaned_rows=2)

Key = tuple[str | None, float | None]


@pytest.fixture
def _cut_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let some chunks have several parts, sorted by slot, and smaller ones just one."""
    monkeypatch.setattr(parts, "PART_BYTES", 150)


def reference_hash(key: Key, modulus: int) -> int:
    """Any function of the key will do; a small modulus makes different keys collide."""
    name, spot = key
    of_spot = 997 if spot is None else 998 if math.isnan(spot) else int(spot * 8)
    return (int.from_bytes((name or "").encode()) * 4000 + of_spot * 2 + (name is None)) % modulus - modulus // 2


def groups_of(state: KeyedState, keys: list[Key], modulus: int) -> Groups:
    rows = pa.table(dict(zip(KEYS.names, zip(*keys, strict=True), strict=True)), schema=KEYS)
    return state.group(rows, np.array([reference_hash(key, modulus) for key in keys], np.int64))


def keys_of(table: pa.Table, prefix: str = "") -> list[Key]:
    """Keys as a dictionary can hold them: NaN is made equal to itself."""
    names, spots = (table[prefix + name].to_pylist() for name in KEYS.names)
    return [(name, _made_equal(spot)) for name, spot in zip(names, spots, strict=True)]


def _made_equal(spot: float | None) -> float | str | None:
    return "nan" if spot is not None and math.isnan(spot) else spot


class Trial:
    """A state under test, opened again and again over one store, next to the dictionary that it should equal."""

    def __init__(self, modulus: int, caches: list[LocalCache | None]) -> None:
        self.modulus, self.caches = modulus, caches
        self.store = self.trial_store = MemoryStore()
        self.committed: dict[Key, tuple[Any, ...]] = {}
        self.commits = 0
        self.moved: list[pa.Table] = []
        self.reopen(0)

    def reopen(self, executor: int) -> None:
        """Start an attempt on one of the machines."""
        cache = self.caches[executor % len(self.caches)]
        place = None if cache is None else cache.place("here", 1)
        self.trial_store = self.store.copy()
        self.held = dict(self.committed)
        self.away: list[dict[Key, tuple[Any, ...]]] = []
        self.state = KeyedState.open(
            self.trial_store, KEYS, VALUES, slots=SLOTS, deadline="until", cache=place, layout=TINY
        )

    def put(self, keys: list[Key], number: int, every: int) -> None:
        groups = groups_of(self.state, keys, self.modulus)
        names = keys_of(groups.keys)
        values = [(number + i, [str(number)] * (i % 3), number * 10 + i if i % 4 else None) for i in range(len(names))]
        where = np.arange(len(names)) % every == 0
        columns = list(zip(*values, strict=True))
        table = pa.table(dict(zip(VALUES.names, columns, strict=True)), schema=VALUES)
        self.state.put(groups, table, None if every == 1 else where)
        self.held |= {name: value for name, value, chosen in zip(names, values, where, strict=True) if chosen}

    def remove(self, keys: list[Key]) -> None:
        groups = groups_of(self.state, keys, self.modulus)
        self.state.remove(groups)
        for name in keys_of(groups.keys):
            self.held.pop(name, None)

    def check_get(self, keys: list[Key]) -> None:
        groups = groups_of(self.state, keys, self.modulus)
        values, exists = self.state.get(groups)
        got = [tuple(row.values()) if there else None for row, there in zip(values.to_pylist(), exists, strict=True)]
        assert got == [self.held.get(name) for name in keys_of(groups.keys)]
        assert ((self.state.sizes(groups) > 0) == exists).all()

    def extract(self, hashes: list[int], slots: list[int], keep: list[int]) -> None:
        before = self.held
        rows = self.state.extract(hashes, slots, keep=keep)
        left = {}
        for key in list(before):
            hashed = self.hash_of(key)
            if hashed in hashes or (hashed % SLOTS in slots and hashed not in keep):
                left[key] = self.held.pop(key)
        assert contents(rows) == left
        self.away.append(left)
        self.moved.append(rows)

    def hash_of(self, key: Key) -> int:
        name, spot = key
        return reference_hash((name, float("nan") if spot == "nan" else spot), self.modulus)

    def install(self) -> None:
        if not self.away:
            return
        rows, left = self.moved.pop(), self.away.pop()
        if self.held.keys() & left.keys():
            with pytest.raises(StateError, match="held already"):
                self.state.install(rows)
        else:
            self.state.install(rows)
            self.held |= left

    def check_due(self, until: int) -> None:
        due = self.state.due(until)
        expected = {key for key, (_, _, deadline) in self.held.items() if deadline is not None and deadline <= until}
        assert sorted(map(repr, keys_of(due.keys))) == sorted(map(repr, expected))

    def commit(self, executor: int, fate: str) -> None:
        """End the attempt: for good, or the store forgets it (before or after the local copy was published)."""
        self.check()
        self.commits += 1
        if fate == "abort":
            self.state.close()
        else:
            self.state.commit(f"c{self.commits}-{id(self)}")
        if fate == "commit":
            self.store, self.committed = self.trial_store, self.held
            assert_compact(self.store, self.commits)
        self.reopen(executor)
        self.check()

    def check(self) -> None:
        scanned = list(self.state.scan())
        rows = pa.concat_tables([self.state.row_schema.empty_table(), *scanned])
        assert contents(rows) == self.held
        assert self.state.rows == rows.num_rows == len(self.held)
        slots = [self.hash_of(key) % SLOTS for key in self.held]
        assert self.state.slot_rows.tolist() == np.bincount(slots, minlength=SLOTS).tolist()
        assert (self.state.slot_bytes > 0).tolist() == (self.state.slot_rows > 0).tolist()
        assert self.state.bytes == self.state.slot_bytes.sum()


def contents(rows: pa.Table) -> dict[Key, tuple[Any, ...]]:
    columns = [rows[f"value.{name}"].to_pylist() for name in VALUES.names]
    held = dict(zip(keys_of(rows, "key."), zip(*columns, strict=True), strict=True))
    assert len(held) == rows.num_rows
    return held


def assert_compact(store: MemoryStore, commits: int) -> None:
    """The store holds chunks that the manifest knows, and not many more rows than are live."""
    if store.manifest is None:
        assert not store.chunks
        return
    manifest = Manifest.from_bytes(store.manifest)
    assert {chunk.sequence for chunk in manifest.chunks} == set(store.chunks)
    assert all(chunk.rows <= TINY.rows_per_chunk for chunk in manifest.chunks)
    assert sum(chunk.live for chunk in manifest.chunks) == manifest.rows


KEY = st.tuples(st.sampled_from(["", "a", "b", "ab", "ba", None]), st.sampled_from([0.0, 1.0, 2.5, float("nan"), None]))
SOME = st.lists(KEY, min_size=1, max_size=12)
HASH = st.integers(-12, 12)
HASHES = st.lists(HASH, max_size=3)
EXECUTOR = st.integers(0, 1)
STEP = st.one_of(
    st.tuples(st.just("put"), SOME, st.integers(0, 50), st.integers(1, 2)),
    st.tuples(st.just("put"), SOME, st.integers(0, 50), st.just(1)),
    st.tuples(st.just("remove"), SOME),
    st.tuples(st.just("check_get"), SOME),
    st.tuples(
        st.just("extract"), st.lists(HASH, max_size=3), st.lists(st.integers(0, SLOTS - 1), max_size=3), st.lists(HASH)
    ),
    st.tuples(st.just("install")),
    st.tuples(st.just("check_due"), st.integers(0, 500)),
    st.tuples(st.just("commit"), EXECUTOR, st.sampled_from(["commit", "commit", "abort", "lost"])),
)


@pytest.mark.usefixtures("_cut_small_chunks")
@pytest.mark.parametrize("mode", ["memory", "cache", "two caches", "small cache", "no room"])
@given(steps=st.lists(STEP, max_size=25), modulus=st.sampled_from([1, 3, 24, 1 << 40]))
@settings(max_examples=25)
def test_equals_a_dictionary(
    mode: str, steps: list[tuple[Any, ...]], modulus: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("caches")
    budget = {"small cache": 30_000, "no room": 100}.get(mode, 1 << 30)
    caches = [LocalCache(folder / name, budget) for name in ("a", "b" if mode == "two caches" else "a")]
    trial = Trial(modulus, [None] if mode == "memory" else list(caches))
    for name, *arguments in steps:
        getattr(trial, name)(*arguments)
    trial.commit(0, "commit")
    trial.state.close()
    assert not list(folder.glob("*/*/~*"))


@pytest.mark.usefixtures("_cut_small_chunks")
@pytest.mark.parametrize("mode", ["memory", "cache", "two caches", "small cache"])
@pytest.mark.parametrize(("seed", "modulus"), [(0, 1 << 40), (1, 1 << 40), (2, 20)])
def test_equals_a_dictionary_on_long_walks(mode: str, seed: int, modulus: int, tmp_path: Path) -> None:
    """Many commits, so that chunks pile up, are merged and cleaned, and local copies fall behind."""
    caches = [LocalCache(tmp_path / name, 30_000 if mode == "small cache" else 1 << 30) for name in ("a", "b")]
    random = np.random.default_rng(seed)
    trial = Trial(modulus, {"memory": [None], "two caches": list(caches)}.get(mode, [caches[0]]))
    names: list[Key] = [(name, spot) for name in "abcdefghijklmnop" for spot in (0.0, 1.5, float("nan"), None)]
    for number in range(100):
        keys = [names[i] for i in random.choice(len(names), random.integers(1, 20))]
        match random.choice(["put", "remove", "extract", "get", "due"], p=[0.5, 0.25, 0.05, 0.1, 0.1]):
            case "put":
                trial.put(keys, number, int(random.integers(1, 3)))
            case "remove":
                trial.remove(keys)
            case "extract":
                trial.extract([], [int(random.integers(SLOTS))], [trial.hash_of(keys[0])])
            case "get":
                trial.check_get(keys)
            case "due":
                trial.check_due(number * 10 - 100)
        if random.random() < 0.7:
            fate = str(random.choice(["commit", "abort", "lost"], p=[0.8, 0.1, 0.1]))
            trial.commit(int(random.random() < 0.2), fate)
    trial.commit(0, "commit")
    trial.state.close()
    assert not [listed for cache in caches for listed in cache.listing() if listed.private]


def named(*names: str, hashed: int = 3) -> Groups:
    """Keys of one column that all have the same hash."""
    return Groups(np.full(len(names), hashed), pa.table({"name": names}), np.arange(len(names)))


def opened(store: MemoryStore, **options: Any) -> KeyedState:
    return KeyedState.open(store, pa.schema({"name": pa.string()}), pa.schema({"n": pa.int64()}), slots=4, **options)


def held_in(store: MemoryStore) -> dict[str, int]:
    with opened(store) as state:
        rows = [row for table in state.scan() for row in table.to_pylist()]
    return {row["key.name"]: row["value.n"] for row in rows}


def test_a_key_may_take_the_hash_of_one_that_is_removed_in_the_same_batch() -> None:
    store = MemoryStore()
    with opened(store) as state:
        state.put(named("old", hashed=9), pa.table({"n": [0]}))  # keeps the first chunk, and so what is said of "a"
        state.put(named("a"), pa.table({"n": [0]}))
        state.commit("first")
    for number, (gone, come) in enumerate([("a", "b"), ("b", "c")]):
        with opened(store) as state:
            state.remove(named(gone))
            state.put(named(come), pa.table({"n": [number]}))
            state.commit(f"n{number}")
        assert held_in(store) == {"old": 0, come: number}


def test_what_was_removed_or_extracted_is_gone_at_once() -> None:
    state, groups = opened(MemoryStore()), named("a", "b", "c")
    state.put(groups, pa.table({"n": [1, 2, 3]}))
    state.remove(groups, np.array([False, True, False]))
    assert state.get(groups)[0]["n"].to_pylist() == [1, None, 3]
    assert state.sizes(groups).tolist() == [21, 0, 21]
    rows = state.extract([3], slots=[3])  # the same keys by hash and by slot: once is enough
    assert rows["key.name"].to_pylist() == ["a", "c"]
    assert not state.get(groups)[1].any()
    assert state.rows == state.bytes == 0
    state.install(rows)
    assert state.get(groups)[0]["n"].to_pylist() == [1, None, 3]


def test_the_log_stays_short_and_every_commit_small() -> None:
    layout = Layout(rows_per_chunk=256, fan_out=4, spare_rows=64, cleaned_rows=16)
    random, store, written = np.random.default_rng(3), MemoryStore(), list[int]()
    keys, touched = 4000, 40
    everything = Groups(np.arange(keys) * 7919, pa.table({"name": np.arange(keys).astype(str)}), np.arange(keys))
    with opened(store, layout=layout) as state:
        state.put(everything, pa.table({"n": np.zeros(keys, np.int64)}))
        state.commit("all")
    for number in range(250):
        with opened(store, layout=layout) as state:
            some = everything.subset(np.isin(np.arange(keys), random.choice(keys, touched, replace=False)))
            state.put(some, pa.table({"n": np.full(touched, number)}))
            before = set(store.chunks)
            state.commit(f"n{number}")
        manifest = Manifest.from_bytes(store.manifest or b"")
        written.append(sum(chunk.rows for chunk in manifest.chunks if chunk.sequence not in before))
        rows = sum(chunk.rows for chunk in manifest.chunks)
        assert rows <= 2 * keys + layout.spare_rows + layout.rows_per_chunk
        # chunks of which four do not fit into one, and up to three of each order of magnitude (1, 4, 16, 64) behind
        assert len(manifest.chunks) <= layout.fan_out * rows / layout.rows_per_chunk + 3 * 4
    assert max(written) <= layout.rows_per_chunk + 5 * touched + layout.cleaned_rows
    assert sum(written) <= 6 * touched * len(written)


@pytest.mark.parametrize(
    ("keys", "values", "options", "message"),
    [
        ({}, {"n": pa.int64()}, {}, "at least one key column"),
        ({"k": pa.int64()}, {}, {}, "at least one value column"),
        ({"k": pa.int64()}, {"n": pa.int64()}, {"deadline": "m"}, "deadline must be an int64 column"),
        ({"k": pa.int64()}, {"n": pa.int32()}, {"deadline": "n"}, "deadline must be an int64 column"),
    ],
)
def test_schemas_are_checked(
    keys: dict[str, pa.DataType], values: dict[str, pa.DataType], options: dict[str, str], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        KeyedState.open(MemoryStore(), pa.schema(keys), pa.schema(values), slots=4, **options)


def test_misuse_is_told() -> None:
    state, groups = opened(MemoryStore()), named("a", "b")
    with pytest.raises(ArgumentError, match="one row of values for every group"):
        state.put(groups, pa.table({"n": [1]}))
    with pytest.raises(ArgumentError, match="columns are not those of the state"):
        state.put(groups, pa.table({"m": [1, 2]}))
    with pytest.raises(ArgumentError, match=r"does not fit the state's type int64.*column 'n'"):
        state.put(groups, pa.table({"n": ["x", "y"]}))
    with pytest.raises(ArgumentError, match="without a deadline"):
        state.due(1)
    with pytest.raises(ArgumentError, match="letters, digits"):
        state.commit("a/b")
    with pytest.raises(ArgumentError, match="not from a state of this kind"):
        state.install(pa.table({"hash": [1]}))
    twice = pa.table([[3, 3], ["a", "a"], [1, 2]], schema=state.row_schema)
    with pytest.raises(StateError, match="twice"):
        state.install(twice)
    assert state.rows == 0
    state.commit("nothing")
    with pytest.raises(StateError, match="closed"):
        state.get(groups)


def test_after_a_flush_the_state_may_be_read() -> None:
    state, first, second = opened(MemoryStore()), named("a", "b", "c"), named("c", "d", hashed=3)
    state.put(first, pa.table({"n": [1, 2, 3]}))
    state.put(second, pa.table({"n": [4, 5]}))
    state.remove(named("a"))
    state.flush("f")
    assert state.get(first)[0]["n"].to_pylist() == [None, 2, 4]
    assert state.get(second)[0]["n"].to_pylist() == [4, 5]
    assert sorted(state.select([3])["key.name"].to_pylist()) == ["b", "c", "d"]
    assert state.sizes(first).tolist() == [0, 21, 21]
    state.close()
