"""The hash table that sketches keep their entries in.

Entries lie next to each other in three arrays, so that a sweep is one pass and Arrow gets plain slices. `slots` maps a
hash to its entry by linear probing, with at most one slot in four taken.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from unskew.sketches._arrow import Held, ranked
from unskew.sketches.base import Sketch

SLOTS_PER_ENTRY = 4
EMPTY = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Entries(NamedTuple):
    slots: NDArray[np.int32]
    hash_of: NDArray[np.int64]
    count_of: NDArray[np.int64]
    slack_of: NDArray[np.int64]  # what the count may be wrong by: below for lossy counting, above for SpaceSaving


class TableSketch(Sketch):
    """A sketch with one table of entries, the first `_used` of which are in use."""

    columns: ClassVar[tuple[str, str, str]]  # names of hash, count and slack in tables

    def __init__(self, capacity: int) -> None:
        self._n = 0
        self._fill(capacity, [np.empty(0, np.int64)] * 3)

    @property
    def n(self) -> int:
        return self._n

    def __len__(self) -> int:
        return self._used

    def entries(self) -> pa.Table:
        return self._ranked()

    def copy(self) -> Self:
        """Return an independent sketch in the same state."""
        twin = copy.copy(self)
        twin._fill(len(self._entries.hash_of), self._held())
        return twin

    def _held(self) -> Held:
        _, hash_of, count, slack = self._entries
        return hash_of[: self._used], count[: self._used], slack[: self._used]

    def _ranked(self, chosen: NDArray[np.bool_] | None = None) -> pa.Table:
        return ranked(self.columns, self._held(), chosen)

    def _fill(self, capacity: int, held: Sequence[NDArray[np.int64]]) -> None:
        columns = [np.array(column) for column in held]  # Arrow's are read-only, and a kernel would be compiled again
        self._used = len(columns[0])
        self._entries = kernel_resize(Entries(np.empty(0, np.int32), *columns), self._used, capacity)


@njit(cache=True)
def home(slots: NDArray[np.int32], key_hash: np.int64) -> np.int64:
    """Return the slot where the search for a hash begins; multiplying spreads keys that were never hashed."""
    bits = np.uint64(key_hash)
    return np.int64(((bits ^ (bits >> _HALF)) * _GOLDEN) >> _HALF) & (len(slots) - 1)


@njit(cache=True)
def probe(entries: Entries, key_hash: np.int64) -> np.int64:
    """Return the slot of a hash, or the empty slot that it would take."""
    slots, hash_of = entries.slots, entries.hash_of
    slot = home(slots, key_hash)
    while slots[slot] != EMPTY and hash_of[slots[slot]] != key_hash:
        slot = (slot + 1) & (len(slots) - 1)
    return slot


@njit(cache=True)
def kernel_index(entries: Entries, used: int) -> None:
    entries.slots[:] = EMPTY
    for entry in range(used):
        entries.slots[probe(entries, entries.hash_of[entry])] = entry


@njit(cache=True)
def kernel_find(entries: Entries, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the entry of each hash, `EMPTY` if there is none."""
    found = np.empty(len(hashes), np.int64)
    for row in range(len(hashes)):
        found[row] = entries.slots[probe(entries, hashes[row])]
    return found


@njit(cache=True)
def kernel_add(
    hashes: NDArray[np.int64],
    counts: NDArray[np.int64] | None,
    start: int,
    stop: int,
    entries: Entries,
    used: int,
    slack: int,
) -> tuple[int, int]:
    """Add rows `start` to `stop`, new hashes with `slack`; stop early at a new hash if the table is full.

    Without `counts` every row counts one. Returns the row reached and the number of entries in use.
    """
    for row in range(start, stop):
        weight = 1 if counts is None else counts[row]
        if weight == 0:
            continue
        slot = probe(entries, hashes[row])
        entry = entries.slots[slot]
        if entry != EMPTY:
            entries.count_of[entry] += weight
            continue
        if used == len(entries.hash_of):
            return row, used
        entries.slots[slot] = used
        entries.hash_of[used], entries.count_of[used], entries.slack_of[used] = hashes[row], weight, slack
        used += 1
    return stop, used


@njit(cache=True)
def kernel_resize(entries: Entries, used: int, capacity: int) -> Entries:
    """Return the entries in use in arrays of another capacity."""
    slots = 1
    while slots < SLOTS_PER_ENTRY * capacity:
        slots *= 2
    resized = Entries(
        np.empty(slots, np.int32),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int64),
    )
    resized.hash_of[:used] = entries.hash_of[:used]
    resized.count_of[:used] = entries.count_of[:used]
    resized.slack_of[:used] = entries.slack_of[:used]
    kernel_index(resized, used)
    return resized
