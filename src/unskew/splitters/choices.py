"""The hash functions H_1, H_2, ... that give a key its candidate channels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from unskew.errors import ArgumentError, require_number
from unskew.sketches.base import Column, hash_column

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]
Loads = NDArray[np.int64]
Salts = NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MOST_WORKERS = 2**20


def salts(seed: int, choices: int) -> Salts:
    """Return one 64-bit salt for each hash function: those of more choices begin with those of fewer.

    >>> bool((salts(seed=7, choices=3)[:2] == salts(seed=7, choices=2)).all())
    True
    """
    require_number("seed", seed, 0, 2**63 - 1)
    return _kernel_salts(np.uint64(seed), choices)


def candidates(hashes: Column, workers: int, choices: int = 2, *, seed: int = 0, distinct: bool = False) -> Channels:
    """Return the candidate channels of every key, a row each, in the order in which ties prefer them.

    A choice is MurmurHash3's 64-bit finaliser of the hash and a salt; its upper 32 bits are scaled to the number of
    workers by a multiplication, which is uniform up to workers / 2**32 and needs no division. See section 3 of Partial
    Key Grouping.

    Parameters
    ----------
    hashes
        64-bit hashes of keys.
    workers
        How many channels there are.
    choices
        How many hash functions (d in the paper).
    seed
        Chooses one of many equally good families of hash functions.
    distinct
        Draw each candidate among the channels that the key does not have yet. Without it, as in the paper, two of them
        coincide with probability 1 / workers, and a hot key that is hit by this has one channel only. With it, a key
        has at most as many candidates as there are workers.

    Examples
    --------
    >>> candidates(np.array([1, 2, 3]), workers=10, choices=3).tolist()
    [[7, 7, 6], [2, 8, 2], [8, 9, 4]]
    >>> candidates(np.array([1, 2, 3]), workers=10, choices=3, distinct=True).tolist()
    [[7, 8, 5], [2, 8, 1], [8, 9, 3]]
    """
    check_workers(workers)
    require_number("choices", choices, most=MOST_WORKERS)
    if choices < 1:
        raise ArgumentError("a key needs at least one choice", got=choices)
    if not isinstance(distinct, bool):
        raise ArgumentError("distinct must be True or False", got=distinct)
    drawn = min(choices, workers) if distinct else choices
    column = hash_column(hashes)
    found = np.empty((len(column), drawn), np.int32)
    _kernel_candidates(column, salts(seed, drawn), workers, distinct, found)
    return found


def check_workers(workers: int) -> None:
    """Raise `ArgumentError` unless there is at least one worker."""
    require_number("workers", workers)
    if not 1 <= workers <= MOST_WORKERS:
        raise ArgumentError(f"there must be between 1 and {MOST_WORKERS} workers", got=workers)


@njit(cache=True, inline="always")
def place(key_hash: Any, salt: Any, workers: Any) -> Any:
    """Return a number below `workers`; called from kernels only, with unsigned words."""
    word = key_hash ^ salt
    word ^= word >> uint64(33)
    word *= uint64(0xFF51AFD7ED558CCD)
    word ^= word >> uint64(33)
    word *= uint64(0xC4CEB9FE1A85EC53)
    word ^= word >> uint64(33)
    return ((word >> uint64(32)) * workers) >> uint64(32)


@njit(cache=True)
def kernel_draw_distinct(key_hash: Any, salts: Salts, workers: int, taken: Channels, drawn: Channels) -> None:
    """Fill `drawn` with different candidates of one key; `taken` is scratch of the same length."""
    for i in range(len(drawn)):  # the r-th channel that is not taken yet; `taken` is sorted
        channel = np.int32(place(np.uint64(key_hash), salts[i], np.uint64(workers - i)))
        at = 0
        while at < i and taken[at] <= channel:
            channel += np.int32(1)
            at += 1
        for later in range(i, at, -1):
            taken[later] = taken[later - 1]
        taken[at] = channel
        drawn[i] = channel


@njit(cache=True)
def _kernel_candidates(hashes: Hashes, salts: Salts, workers: int, distinct: bool, found: Channels) -> None:
    taken, drawn = np.empty(len(salts), np.int32), np.empty(len(salts), np.int32)
    for row in range(len(hashes)):
        if distinct:
            kernel_draw_distinct(hashes[row], salts, workers, taken, drawn)
            for i in range(len(salts)):
                found[row, i] = drawn[i]
        else:
            for i in range(len(salts)):
                found[row, i] = np.int32(place(np.uint64(hashes[row]), salts[i], np.uint64(workers)))


@njit(cache=True)
def _kernel_salts(seed: np.uint64, choices: int) -> Salts:
    found = np.empty(choices, np.uint64)
    state = _scramble(seed + _GOLDEN)
    for i in range(choices):
        state += _GOLDEN
        found[i] = _scramble(state)
    return found


@njit(cache=True)
def _scramble(word: Any) -> Any:
    """Mix as SplitMix64 does."""
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D049BB133111EB)
    return word ^ (word >> uint64(31))
