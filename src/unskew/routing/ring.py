"""The consistent-hash ring of Gedik's paper: MurmurHash3 (x64, 128 bits) places channels and keys on a circle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import ArrayLike, NDArray

from unskew.errors import RoutingError, require_fields
from unskew.hashing.kernels import _rotate

Words = NDArray[np.uint64]

MOST_POINTS = 2**28
_KEY_SEED_OFFSET = 0x5BD1E995
_FACTOR_1 = np.uint64(0x87C37B91114253D5)
_FACTOR_2 = np.uint64(0x4CF5AD432745937F)


@dataclass(frozen=True)
class Ring:
    """A consistent hash: each channel owns `replicas` points of a circle, and a key belongs to the next point.

    Points depend on (seed, channel, replica) but not on the number of channels. A new channel therefore takes about
    1/(N+1) of the keys, and no other key moves. With 10 channels and 1,000 replicas each, the largest share is about
    10 % above the smallest. A look-up costs O(1). Memory: 20 bytes a point, and 4 to 8 a bucket.

    `RoutingTable` deals out slots instead, which gives even shares; the ring is the baseline of the papers.

    References
    ----------
    Gedik, "Partitioning functions for stateful data parallelism in stream processing", sections 3 and 4.1.
    A. Appleby, MurmurHash3, ``MurmurHash3_x64_128``.

    Examples
    --------
    >>> keys = np.arange(1000)
    >>> small, large = Ring(channels=3).lookup(keys), Ring(channels=4).lookup(keys)
    >>> bool(np.all((large == small) | (large == 3)))
    True
    """

    channels: int
    replicas: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require_fields(self)
        if self.channels < 1 or self.replicas < 1:
            raise RoutingError("a ring needs at least one channel and one replica", got=(self.channels, self.replicas))
        if self.channels * self.replicas > MOST_POINTS:
            got = (self.channels, self.replicas)
            raise RoutingError("a ring has at most 2**28 points", got=got, hint="use fewer replicas")
        if not 0 <= self.seed < 2**32:
            raise RoutingError("a seed must be an unsigned 32-bit integer", got=self.seed, hint="take it modulo 2**32")

    def lookup(self, hashes: ArrayLike) -> NDArray[np.int32]:
        """Return the channel of each key, given by its 64-bit hash."""
        key_seed = np.uint64((self.seed + _KEY_SEED_OFFSET) & 0xFFFFFFFF)
        upper, lower = _kernel_hash_keys(np.ascontiguousarray(hashes, np.int64), key_seed)
        return _kernel_ring_lookup(upper, lower, *self.points, *self._buckets)

    @cached_property
    def points(self) -> tuple[Words, Words, NDArray[np.int32]]:
        """Return the upper and lower words of the points in order, and their channels; equal points go by channel."""
        upper, lower = _kernel_place_replicas(self.channels, self.replicas, np.uint64(self.seed))
        owner = np.repeat(np.arange(self.channels, dtype=np.int32), self.replicas)
        order = np.lexsort((owner, lower, upper))
        return upper[order], lower[order], owner[order]

    @cached_property
    def _buckets(self) -> tuple[NDArray[np.int64], np.uint64]:
        """Cut the circle by the upper bits of a hash: the first point of each bucket, and the shift to the bucket."""
        upper = self.points[0]
        bits = max(1, int(np.ceil(np.log2(len(upper)))))
        shift = np.uint64(64 - bits)
        starts = np.arange(1 << bits, dtype=np.uint64) << shift
        return np.searchsorted(upper, starts, side="left"), shift


@njit(cache=True)
def _scramble_1(word: Any) -> Any:
    return _rotate(word * _FACTOR_1, 31) * _FACTOR_2


@njit(cache=True)
def _scramble_2(word: Any) -> Any:
    return _rotate(word * _FACTOR_2, 33) * _FACTOR_1


@njit(cache=True)
def _avalanche(word: Any) -> Any:
    word ^= word >> uint64(33)
    word *= uint64(0xFF51AFD7ED558CCD)
    word ^= word >> uint64(33)
    word *= uint64(0xC4CEB9FE1A85EC53)
    return word ^ (word >> uint64(33))


@njit(cache=True)
def _finish(high: Any, low: Any, length: Any) -> Any:
    high ^= uint64(length)
    low ^= uint64(length)
    high += low
    low += high
    high, low = _avalanche(high), _avalanche(low)
    high += low
    return high, low + high


@njit(cache=True)
def _kernel_hash_keys(keys: NDArray[np.int64], seed: np.uint64) -> tuple[Words, Words]:
    """Hash each key as a message of eight bytes, little-endian."""
    high, low = np.empty(len(keys), np.uint64), np.empty(len(keys), np.uint64)
    for row in range(len(keys)):
        high[row], low[row] = _finish(seed ^ _scramble_1(uint64(keys[row])), seed, 8)
    return high, low


@njit(cache=True)
def _kernel_place_replicas(channels: int, replicas: int, seed: np.uint64) -> tuple[Words, Words]:
    """Hash each (channel, replica) as a message of two words of eight bytes, little-endian."""
    high, low = np.empty(channels * replicas, np.uint64), np.empty(channels * replicas, np.uint64)
    for point in range(len(high)):
        h = _rotate(seed ^ _scramble_1(uint64(point // replicas)), 27) + seed
        h = h * uint64(5) + uint64(0x52DCE729)
        l = _rotate(seed ^ _scramble_2(uint64(point % replicas)), 31) + h
        high[point], low[point] = _finish(h, l * uint64(5) + uint64(0x38495AB5), 16)
    return high, low


@njit(cache=True)
def _kernel_ring_lookup(
    key_upper: Words,
    key_lower: Words,
    upper: Words,
    lower: Words,
    owner: NDArray[np.int32],
    start: NDArray[np.int64],
    shift: np.uint64,
) -> NDArray[np.int32]:
    points = len(upper)
    result = np.empty(len(key_upper), np.int32)
    for i in range(len(key_upper)):
        hi, lo = key_upper[i], key_lower[i]
        point = start[np.int64(hi >> shift)]
        while point < points and (upper[point] < hi or (upper[point] == hi and lower[point] < lo)):
            point += 1
        result[i] = owner[point if point < points else 0]
    return result
