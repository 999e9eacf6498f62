"""Compiled look-up of whole columns of hashes."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Hashes = NDArray[np.int64]
Channels = NDArray[np.int32]

_EMPTY = np.int32(-1)
_SMALL = 1 << 14


class HashIndex:
    """A read-only map from 64-bit hashes to small numbers, by open addressing.

    It is at most an eighth full, so that most misses end at the first probe. Large maps do not fit the cache anyway and
    are at most half full. The upper bits of a hash choose its bucket, since the lower ones choose its slot.
    """

    def __init__(self, hashes: Hashes, values: Channels) -> None:
        sparseness = 8 if len(hashes) <= _SMALL else 2
        bits = max(3, int(np.ceil(np.log2(max(1, len(hashes)) * sparseness))))
        self.shift = np.uint64(64 - bits)
        self.keys = np.zeros(1 << bits, np.int64)
        self.values = np.full(1 << bits, _EMPTY, np.int32)
        _kernel_insert(hashes, values, self.shift, self.keys, self.values)

    def lookup(self, hashes: Hashes, otherwise: Channels) -> Channels:
        """Return the value of each hash, or ``otherwise[hash mod len(otherwise)]`` where there is none."""
        return _kernel_lookup(hashes, otherwise, self.shift, self.keys, self.values)


def slot_of(hashes: Hashes, slots: int) -> NDArray[np.int64]:
    """Return the slot of each hash: Spark's ``pmod(hash, slots)``."""
    return np.mod(hashes, np.int64(slots))


@njit(cache=True)
def _kernel_insert(
    hashes: Hashes, values: Channels, shift: np.uint64, index_keys: Hashes, index_values: Channels
) -> None:
    last = len(index_keys) - 1
    for i in range(len(hashes)):
        bucket = np.int64(np.uint64(hashes[i]) >> shift)
        while index_values[bucket] != _EMPTY:
            bucket = (bucket + 1) & last
        index_keys[bucket] = hashes[i]
        index_values[bucket] = values[i]


@njit(cache=True)
def _kernel_lookup(
    hashes: Hashes, otherwise: Channels, shift: np.uint64, index_keys: Hashes, index_values: Channels
) -> Channels:
    last = len(index_keys) - 1
    n_slots = len(otherwise)
    mask = np.int64(n_slots - 1)
    power_of_two = (n_slots & (n_slots - 1)) == 0
    result = np.empty(len(hashes), np.int32)
    for i in range(len(hashes)):
        h = hashes[i]
        bucket = np.int64(np.uint64(h) >> shift)
        value = index_values[bucket]
        while value != _EMPTY and index_keys[bucket] != h:
            bucket = (bucket + 1) & last
            value = index_values[bucket]
        if value == _EMPTY:
            value = otherwise[h & mask] if power_of_two else otherwise[h % n_slots]
        result[i] = value
    return result
