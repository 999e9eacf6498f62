"""The index against a dictionary, with many keys in the same buckets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from unskew.state.index import ABSENT, KeyIndex, positions_of

SLOTS = 5


def memory(name: str, length: int) -> NDArray[np.int64]:
    return np.zeros(length, np.int64)


@given(
    rounds=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 100), st.integers(0, 100)), max_size=8),
    distinct=st.sampled_from([3, 500, 1 << 62]),
    seed=st.integers(0, 9),
)
def test_equals_a_dictionary(rounds: list[tuple[int, int, int]], distinct: int, seed: int) -> None:
    """Rows are told apart by position; few distinct hashes make long runs of equal ones."""
    random = np.random.default_rng(seed)
    index = KeyIndex.empty(memory, SLOTS)
    held: dict[int, tuple[int, int]] = {}  # position -> hash, size
    sequence = 0
    for added, removed, replaced in rounds:
        sequence += 1
        hashes, sizes = random.integers(-distinct, distinct, added), random.integers(1, 99, added)
        positions = positions_of(sequence, added)
        before = {hashed for hashed, _ in held.values()}
        shared = index.insert(hashes, positions, sizes)
        first_here = np.zeros(added, np.bool_)
        first_here[np.unique(hashes, return_index=True)[1]] = True
        assert shared.tolist() == [
            hashed in before or not first for hashed, first in zip(hashes.tolist(), first_here, strict=True)
        ]
        held |= {int(p): (int(h), int(s)) for p, h, s in zip(positions, hashes, sizes, strict=True)}
        gone = random.permutation(sorted(held))[:removed].astype(np.int64)
        index.delete(np.array([held.pop(int(p))[0] for p in gone], np.int64), gone)
        old = random.permutation(sorted(held))[:replaced].astype(np.int64)
        sequence += 1
        new = positions_of(sequence, len(old))
        moved = [held.pop(int(p)) for p in old]
        index.replace(np.array([h for h, _ in moved], np.int64), old, new, np.full(len(old), 7))
        held |= {int(p): (h, 7) for p, (h, _) in zip(new, moved, strict=True)}
    assert_holds(index, held)


def assert_holds(index: KeyIndex, held: dict[int, tuple[int, int]]) -> None:
    hashes = np.array([h for h, _ in held.values()], np.int64)
    positions = np.array(list(held), np.int64)
    assert index.rows == len(held)
    assert index.is_live(hashes, positions).all()
    assert not index.is_live(hashes, positions + (1 << 50)).any()
    assert index.sizes(hashes, positions).tolist() == [size for _, size in held.values()]
    found, there = index.in_slots(np.arange(SLOTS) != 2)
    assert dict(zip(there.tolist(), found.tolist(), strict=True)) == {
        p: h for p, (h, _) in held.items() if h % SLOTS != 2
    }
    everywhere: set[int] = set()
    distinct = np.unique(hashes)
    buckets = index.find(distinct)
    while (buckets != ABSENT).any():
        everywhere |= set(index.positions(buckets[buckets != ABSENT]).tolist())
        buckets = np.where(buckets == ABSENT, ABSENT, index.find(distinct, after=np.maximum(buckets, 0)))
    assert everywhere == set(held)
    slots = hashes % SLOTS
    assert index.slot_rows.tolist() == np.bincount(slots, minlength=SLOTS).tolist()
    sizes = np.array([size for _, size in held.values()], np.int64)
    assert index.slot_bytes.tolist() == [int(sizes[slots == slot].sum()) for slot in range(SLOTS)]


CHUNK = st.lists(st.tuples(st.integers(0, 900), st.booleans()), unique_by=lambda row: row[0])


@given(chunks=st.lists(CHUNK, max_size=6))
def test_reading_chunks_in_order_gives_the_latest_rows(chunks: list[list[tuple[int, bool]]]) -> None:
    index, held = KeyIndex.empty(memory, SLOTS), dict[int, int]()
    for sequence, rows in enumerate(chunks, start=1):
        hashes, removed = np.array(rows, np.int64).reshape(-1, 2).T
        positions, sizes = positions_of(sequence, len(rows)), np.ones(len(rows), np.int64)
        for flag in (True, False):
            part = removed == flag
            index.apply(hashes[part], positions[part], sizes[part], removed=flag)
        for (hashed, is_removed), position in zip(rows, positions.tolist(), strict=True):
            held.pop(hashed, None)
            if not is_removed:
                held[hashed] = position
    assert_holds(index, {position: (hashed, 1) for hashed, position in held.items()})
