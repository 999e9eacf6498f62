"""Where in the log each key's row lies: an open-addressing hash table over arrays that may be memory-mapped.

Each bucket holds a key's hash, the position of its row and the row's size in bytes. A position is the sequence number
of a chunk, shifted left by 32 bits, plus the row within it. Sequence numbers start at 1, so position 0 means an empty
bucket, and a file of zeros is an empty index. Different keys with the same hash have a bucket each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.state.groups import Mask, Numbers

Allocate = Callable[[str, int], Numbers]  # gives zeros by name and length; a second array replaces the first

ABSENT = -1
ROW_BITS = 32
SMALLEST_CAPACITY = 1024

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HASH, _POSITION, _SIZE, _WORDS = 0, 1, 2, 3
_ROWS, _BYTES = 0, 1


def positions_of(sequence: int, rows: int) -> Numbers:
    """Return the positions of the first `rows` rows of a chunk."""
    return np.arange(rows, dtype=np.int64) + (np.int64(sequence) << ROW_BITS)


def fixed(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous read-only view: with one kind of array, numba compiles each kernel once."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


class KeyIndex:
    """Finds the rows of keys by hash, and counts rows and bytes per slot as they change; O(1) per key.

    It doubles when it would be more than five eighths full, and a delete closes its gap. A row is known by hash and
    position; bucket numbers are valid until the next change.
    """

    def __init__(self, allocate: Allocate, buckets: Numbers, slots: Numbers) -> None:
        self._allocate = allocate
        self._buckets = buckets.reshape(-1, _WORDS)
        self._slots = slots.reshape(-1, 2)
        self.rows = int(self._slots[:, _ROWS].sum())

    @classmethod
    def empty(cls, allocate: Allocate, slots: int, expected_rows: int = 0) -> KeyIndex:
        buckets = allocate("index", _capacity_for(expected_rows) * _WORDS)
        return cls(allocate, buckets, allocate("slots", 2 * slots))

    @property
    def slot_rows(self) -> Numbers:
        return self._slots[:, _ROWS].copy()

    @property
    def slot_bytes(self) -> Numbers:
        return self._slots[:, _BYTES].copy()

    def find(self, hashes: Numbers, after: Numbers | None = None) -> Numbers:
        """Return the first bucket of each hash, or the next one after the buckets given; `ABSENT` if there is none."""
        start = np.full(len(hashes), ABSENT) if after is None else after
        return _kernel_find(fixed(hashes), fixed(start), self._buckets)

    def positions(self, buckets: Numbers) -> Numbers:
        """Return the position in each bucket, 0 for `ABSENT`."""
        return np.where(buckets == ABSENT, 0, self._buckets[buckets, _POSITION])

    def sizes(self, hashes: Numbers, positions: Numbers) -> Numbers:
        """Return the bytes of the rows at these positions, 0 where there is none."""
        return np.maximum(_kernel_sizes(fixed(hashes), fixed(positions), self._buckets), 0)

    def is_live(self, hashes: Numbers, positions: Numbers) -> Mask:
        """Tell which of these positions hold the latest row of a key."""
        return np.not_equal(_kernel_sizes(fixed(hashes), fixed(positions), self._buckets), ABSENT)

    def insert(self, hashes: Numbers, positions: Numbers, sizes: Numbers) -> Mask:
        """Add keys that are not held; returns which of them share their hash with a key that was there before."""
        self._reserve(len(hashes))
        self.rows += len(hashes)
        return _kernel_insert(fixed(hashes), fixed(positions), fixed(sizes), self._buckets, self._slots)

    def replace(self, hashes: Numbers, old: Numbers, new: Numbers, sizes: Numbers) -> None:
        _kernel_replace(fixed(hashes), fixed(old), fixed(new), fixed(sizes), self._buckets, self._slots)

    def move(self, hashes: Numbers, old: Numbers, new: Numbers) -> None:
        _kernel_move(fixed(hashes), fixed(old), fixed(new), self._buckets)

    def delete(self, hashes: Numbers, positions: Numbers) -> None:
        self.rows -= int(_kernel_delete(fixed(hashes), fixed(positions), self._buckets, self._slots))

    def apply(self, hashes: Numbers, positions: Numbers, sizes: Numbers, *, removed: bool) -> None:
        """Replay rows of a log in which each hash stands for one key, which now lies here or is removed."""
        done = 0
        while done < len(hashes):
            # how many keys are new is not known before: room for some is enough to go on
            self._reserve(min(len(hashes) - done, SMALLEST_CAPACITY))
            room = _most_rows(len(self._buckets)) - self.rows
            part = slice(done, done + room)
            now, there, bytes_there = fixed(hashes[part]), fixed(positions[part]), fixed(sizes[part])
            self.rows += int(_kernel_apply(now, there, bytes_there, removed, self._buckets, self._slots))
            done += room

    def in_slots(self, chosen: Mask) -> tuple[Numbers, Numbers]:
        """Return hashes and positions of all keys in the chosen slots; one pass over the index."""
        return _kernel_in_slots(chosen, int(self._slots[chosen, _ROWS].sum()), self._buckets)

    def outside(self, sequences: Numbers) -> tuple[Numbers, Numbers]:
        """Return hashes and positions of all keys that lie in none of these chunks; one pass over the index."""
        hashes, positions = self.in_slots(np.ones(len(self._slots), np.bool_))
        lost = ~np.isin(positions >> ROW_BITS, sequences)
        return hashes[lost], positions[lost]

    def _reserve(self, more: int) -> None:
        if self.rows + more <= _most_rows(len(self._buckets)):
            return
        old = self._buckets
        self._buckets = self._allocate("index", _capacity_for(self.rows + more) * _WORDS).reshape(-1, _WORDS)
        _kernel_rehash(old, self._buckets)


def _most_rows(capacity: int) -> int:
    return capacity * 5 // 8


def _capacity_for(rows: int) -> int:
    """Return the smallest power of two of which `rows` fill at most five eighths."""
    return max(SMALLEST_CAPACITY, 1 << (-(-rows * 8 // 5) - 1).bit_length())


@njit(cache=True)
def _shift(buckets: Any) -> Any:
    bits = 0
    while (1 << bits) < len(buckets):
        bits += 1
    return np.uint64(64 - bits)


@njit(cache=True)
def _home(hashed: Any, shift: Any) -> Any:
    return np.int64((np.uint64(hashed) * _GOLDEN) >> shift)


@njit(cache=True)
def _of_hash(hashed: Any, bucket: Any, buckets: Any) -> Any:
    """Return the next bucket from here on that has this hash, or is empty."""
    while buckets[bucket, _POSITION] != 0 and buckets[bucket, _HASH] != hashed:
        bucket = (bucket + 1) & (len(buckets) - 1)
    return bucket


@njit(cache=True)
def _at(hashed: Any, position: Any, shift: Any, buckets: Any) -> Any:
    """Return the bucket with this hash and position, or ABSENT."""
    last = len(buckets) - 1
    bucket = _home(hashed, shift)
    while buckets[bucket, _POSITION] != 0:
        if buckets[bucket, _POSITION] == position and buckets[bucket, _HASH] == hashed:
            return bucket
        bucket = (bucket + 1) & last
    return ABSENT


@njit(cache=True)
def _fill(bucket: Any, hashed: Any, position: Any, size: Any, buckets: Any) -> None:
    buckets[bucket, _HASH] = hashed
    buckets[bucket, _POSITION] = position
    buckets[bucket, _SIZE] = size


@njit(cache=True)
def _count(hashed: Any, rows: Any, size: Any, slots: Any) -> None:
    slot = hashed % len(slots)
    slots[slot, _ROWS] += rows
    slots[slot, _BYTES] += size


@njit(cache=True)
def _empty(bucket: Any, shift: Any, buckets: Any) -> None:
    """Empty a bucket and move up what was displaced over it."""
    last = len(buckets) - 1
    gap, probe = bucket, bucket
    while True:
        probe = (probe + 1) & last
        if buckets[probe, _POSITION] == 0:
            break
        home = _home(buckets[probe, _HASH], shift)
        if ((probe - home) & last) >= ((probe - gap) & last):
            for word in range(_WORDS):
                buckets[gap, word] = buckets[probe, word]
            gap = probe
    buckets[gap, _POSITION] = 0


@njit(cache=True)
def _kernel_find(hashes: Numbers, after: Numbers, buckets: Numbers) -> Numbers:
    last, shift = len(buckets) - 1, _shift(buckets)
    found = np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        start = _home(hashes[i], shift) if after[i] == ABSENT else (after[i] + 1) & last
        bucket = _of_hash(hashes[i], start, buckets)
        found[i] = bucket if buckets[bucket, _POSITION] != 0 else ABSENT
    return found


@njit(cache=True)
def _kernel_sizes(hashes: Numbers, positions: Numbers, buckets: Numbers) -> Numbers:
    shift = _shift(buckets)
    sizes = np.empty(len(hashes), np.int64)
    for i in range(len(hashes)):
        bucket = _at(hashes[i], positions[i], shift, buckets)
        sizes[i] = ABSENT if bucket == ABSENT else buckets[bucket, _SIZE]
    return sizes


@njit(cache=True)
def _kernel_replace(
    hashes: Numbers, old: Numbers, new: Numbers, sizes: Numbers, buckets: Numbers, slots: Numbers
) -> None:
    shift = _shift(buckets)
    for i in range(len(hashes)):
        bucket = _at(hashes[i], old[i], shift, buckets)
        _count(hashes[i], 0, sizes[i] - buckets[bucket, _SIZE], slots)
        _fill(bucket, hashes[i], new[i], sizes[i], buckets)


@njit(cache=True)
def _kernel_insert(hashes: Numbers, positions: Numbers, sizes: Numbers, buckets: Numbers, slots: Numbers) -> Mask:
    last, shift = len(buckets) - 1, _shift(buckets)
    shared = np.zeros(len(hashes), np.bool_)
    for i in range(len(hashes)):
        bucket = _of_hash(hashes[i], _home(hashes[i], shift), buckets)
        shared[i] = buckets[bucket, _POSITION] != 0
        while buckets[bucket, _POSITION] != 0:
            bucket = (bucket + 1) & last
        _fill(bucket, hashes[i], positions[i], sizes[i], buckets)
        _count(hashes[i], 1, sizes[i], slots)
    return shared


@njit(cache=True)
def _kernel_delete(hashes: Numbers, positions: Numbers, buckets: Numbers, slots: Numbers) -> int:
    shift = _shift(buckets)
    deleted = 0
    for i in range(len(hashes)):
        bucket = _at(hashes[i], positions[i], shift, buckets)
        if bucket != ABSENT:
            _count(hashes[i], -1, -buckets[bucket, _SIZE], slots)
            _empty(bucket, shift, buckets)
            deleted += 1
    return deleted


@njit(cache=True)
def _kernel_move(hashes: Numbers, old: Numbers, new: Numbers, buckets: Numbers) -> None:
    shift = _shift(buckets)
    for i in range(len(hashes)):
        bucket = _at(hashes[i], old[i], shift, buckets)
        if bucket != ABSENT:
            buckets[bucket, _POSITION] = new[i]


@njit(cache=True)
def _kernel_apply(
    hashes: Numbers, positions: Numbers, sizes: Numbers, removed: bool, buckets: Numbers, slots: Numbers
) -> int:
    shift = _shift(buckets)
    more = 0
    for i in range(len(hashes)):
        bucket = _of_hash(hashes[i], _home(hashes[i], shift), buckets)
        held = buckets[bucket, _POSITION] != 0
        if not removed:
            before = buckets[bucket, _SIZE] if held else 0
            _count(hashes[i], 0 if held else 1, sizes[i] - before, slots)
            _fill(bucket, hashes[i], positions[i], sizes[i], buckets)
            more += 0 if held else 1
        elif held:
            _count(hashes[i], -1, -buckets[bucket, _SIZE], slots)
            _empty(bucket, shift, buckets)
            more -= 1
    return more


@njit(cache=True)
def _kernel_in_slots(chosen: Mask, count: int, buckets: Numbers) -> tuple[Numbers, Numbers]:
    hashes, positions = np.empty(count, np.int64), np.empty(count, np.int64)
    slots, mask = len(chosen), len(chosen) - 1
    power_of_two = slots & mask == 0
    found = 0
    for bucket in range(len(buckets)):
        if buckets[bucket, _POSITION] != 0:
            hashed = buckets[bucket, _HASH]
            if chosen[hashed & mask if power_of_two else hashed % slots]:
                hashes[found], positions[found] = hashed, buckets[bucket, _POSITION]
                found += 1
    return hashes, positions


@njit(cache=True)
def _kernel_rehash(old: Numbers, new: Numbers) -> None:
    last, shift = len(new) - 1, _shift(new)
    for i in range(len(old)):
        if old[i, _POSITION] != 0:
            bucket = _home(old[i, _HASH], shift)
            while new[bucket, _POSITION] != 0:
                bucket = (bucket + 1) & last
            _fill(bucket, old[i, _HASH], old[i, _POSITION], old[i, _SIZE], new)
