"""Entries found by hash: open addressing over dense arrays, shared by the sketches.

The entries of a sketch lie next to each other in three arrays, so that a sweep is one pass and Arrow gets plain slices.
`slots` maps a hash to its position: linear probing, at most one slot in four taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

SLOTS_PER_ENTRY = 4
EMPTY = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


class Entries(NamedTuple):
    """Dense entries and the slots that find them; how many are in use is the sketch's to know."""

    slots: NDArray[np.int32]
    hash_of: NDArray[np.int64]
    count_of: NDArray[np.int64]
    slack_of: NDArray[np.int64]  # what the count may be wrong by: below for lossy counting, above for SpaceSaving


Held = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""Hashes, counts and slacks of the entries in use."""


def allocate(capacity: int) -> Entries:
    """Make room for `capacity` entries, none in use."""
    slots = 1 << (SLOTS_PER_ENTRY * max(capacity, 1) - 1).bit_length()
    column = np.zeros((3, capacity), np.int64)
    return Entries(np.full(slots, EMPTY, np.int32), column[0], column[1], column[2])


def build(capacity: int, held: Held) -> Entries:
    """Make room for `capacity` entries and fill in the given ones, all different."""
    entries, used = allocate(capacity), len(held[0])
    entries.hash_of[:used], entries.count_of[:used], entries.slack_of[:used] = held
    kernel_index(entries, used)
    return entries


def held(entries: Entries, used: int) -> Held:
    """View the entries in use, in their order."""
    return entries.hash_of[:used], entries.count_of[:used], entries.slack_of[:used]


@njit(cache=True)
def home(slots: NDArray[np.int32], key_hash: np.int64) -> np.int64:
    """Slot at which the search for a hash begins.

    The multiplication spreads keys that were never hashed (0, 1, 2, ...); folding the upper half in first lets
    every bit count.
    """
    bits = np.uint64(key_hash)
    return np.int64(((bits ^ (bits >> _HALF)) * _GOLDEN) >> _HALF) & (len(slots) - 1)


@njit(cache=True)
def kernel_index(entries: Entries, used: int) -> None:
    """Rebuild the slots for the first `used` entries."""
    slots, hash_of = entries.slots, entries.hash_of
    slots[:] = EMPTY
    for entry in range(used):
        slot = home(slots, hash_of[entry])
        while slots[slot] != EMPTY:
            slot = (slot + 1) & (len(slots) - 1)
        slots[slot] = entry


@njit(cache=True)
def kernel_find(entries: Entries, hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of the entry of each hash, `EMPTY` where there is none."""
    slots, hash_of = entries.slots, entries.hash_of
    found = np.empty(len(hashes), np.int64)
    for row in range(len(hashes)):
        slot = home(slots, hashes[row])
        while slots[slot] != EMPTY and hash_of[slots[slot]] != hashes[row]:
            slot = (slot + 1) & (len(slots) - 1)
        found[row] = slots[slot]
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
    """Add rows `start` to `stop` to the entries, new ones with `slack`; end early at a new hash without room.

    Without `counts` every row counts one. Returns the row reached and the entries in use.
    """
    slots, hash_of, count = entries.slots, entries.hash_of, entries.count_of
    for row in range(start, stop):
        weight = 1 if counts is None else counts[row]
        if weight == 0:
            continue
        key_hash = hashes[row]
        slot = home(slots, key_hash)
        while True:
            entry = slots[slot]
            if entry == EMPTY:
                if used == len(hash_of):
                    return row, used
                slots[slot] = used
                hash_of[used], count[used], entries.slack_of[used] = key_hash, weight, slack
                used += 1
                break
            if hash_of[entry] == key_hash:
                count[entry] += weight
                break
            slot = (slot + 1) & (len(slots) - 1)
    return stop, used


@njit(cache=True)
def kernel_resize(entries: Entries, used: int, capacity: int) -> Entries:
    """Copy the entries in use to arrays of another capacity."""
    slots = 1
    while slots < SLOTS_PER_ENTRY * capacity:
        slots *= 2
    hash_of, count, slack = np.empty(capacity, np.int64), np.empty(capacity, np.int64), np.empty(capacity, np.int64)
    hash_of[:used], count[:used], slack[:used] = (
        entries.hash_of[:used],
        entries.count_of[:used],
        entries.slack_of[:used],
    )
    resized = Entries(np.empty(slots, np.int32), hash_of, count, slack)
    kernel_index(resized, used)
    return resized
