"""MurmurHash3 x64 128: positions on the circle of a consistent hash, and independent hashes of keys.

References
----------
A. Appleby, MurmurHash3, ``MurmurHash3_x64_128``. Used by the consistent hash of B. Gedik, "Partitioning functions for
stateful data parallelism in stream processing", section 4.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, uint64
from numpy.typing import ArrayLike, NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing.buffers import byte_ranges

Hash128 = tuple[NDArray[np.uint64], NDArray[np.uint64]]

_FACTOR_1 = np.uint64(0x87C37B91114253D5)
_FACTOR_2 = np.uint64(0x4CF5AD432745937F)


def murmur3_x64_128(message: bytes, seed: int = 0) -> tuple[int, int]:
    """Hash one message; the pair is (high, low), in the order in which the reference code writes them.

    Examples
    --------
    >>> "{:016x}{:016x}".format(*murmur3_x64_128(b"The quick brown fox jumps over the lazy dog"))
    'e34bbc7bbc071b6c7a433ca9c49a9347'
    """
    high, low = hash128_bytes(pa.array([message], pa.large_binary()), seed)
    return int(high[0]), int(low[0])


def hash128_bytes(column: pa.Array, seed: int = 0) -> Hash128:
    """Hash every row of a string or binary array; returns the high and the low words. Nulls are refused."""
    if column.null_count:
        raise ColumnError("a null has no bytes to hash", got=f"{column.null_count} nulls", hint="drop or fill them")
    hashed = _empty(len(column))
    _kernel_byte_messages(*byte_ranges(column), _checked(seed), *hashed)
    return hashed


def hash128_int64(values: ArrayLike, seed: int = 0) -> Hash128:
    """Hash every integer as a message of eight bytes, little-endian; returns the high and the low words.

    Examples
    --------
    >>> high, low = hash128_int64([1, 2], seed=7)
    >>> murmur3_x64_128((2).to_bytes(8, "little"), seed=7) == (high[1], low[1])
    True
    """
    words = np.ascontiguousarray(values, np.int64)
    hashed = _empty(words.size)
    _kernel_one_word(words, _checked(seed), *hashed)
    return hashed


def ring_positions(seed: int, channel: int, replicas: int) -> Hash128:
    """Place the replicas 0, 1, ... of a channel on a circle of 2^128 points; returns the high and the low words.

    The message is (channel, replica), two integers of eight bytes, little-endian.

    Examples
    --------
    >>> high, low = ring_positions(seed=0, channel=3, replicas=100)
    >>> message = (3).to_bytes(8, "little") + (99).to_bytes(8, "little")
    >>> murmur3_x64_128(message, seed=0) == (high[99], low[99])
    True
    """
    if replicas < 0:
        raise ArgumentError("a channel cannot have fewer than no replicas", got=replicas)
    hashed = _empty(replicas)
    _kernel_replicas(np.int64(channel), _checked(seed), *hashed)
    return hashed


def _empty(size: int) -> Hash128:
    return np.empty(size, np.uint64), np.empty(size, np.uint64)


def _checked(seed: int) -> np.uint64:
    if not 0 <= seed < 2**32:
        raise ArgumentError("a seed has 32 bits, without sign", got=seed, hint="take it modulo 2**32")
    return np.uint64(seed)


@njit(cache=True)
def _rotate(word: Any, bits: Any) -> Any:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@njit(cache=True)
def _scramble_1(word: Any) -> Any:
    return _rotate(word * _FACTOR_1, 31) * _FACTOR_2


@njit(cache=True)
def _scramble_2(word: Any) -> Any:
    return _rotate(word * _FACTOR_2, 33) * _FACTOR_1


@njit(cache=True)
def _block(high: Any, low: Any, first: Any, second: Any) -> Any:
    high = _rotate(high ^ _scramble_1(first), 27) + low
    high = high * uint64(5) + uint64(0x52DCE729)
    low = _rotate(low ^ _scramble_2(second), 31) + high
    return high, low * uint64(5) + uint64(0x38495AB5)


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
def _read(data: Any, start: Any, end: Any) -> Any:
    """Read the bytes from `start` up to `end`, at most eight, as a little-endian word; none are zero."""
    word = uint64(0)
    for place in range(min(end - start, 8)):
        word |= uint64(data[start + place]) << uint64(8 * place)
    return word


@njit(cache=True)
def _kernel_byte_messages(
    offsets: NDArray[Any], data: NDArray[np.uint8], seed: Any, highs: NDArray[np.uint64], lows: NDArray[np.uint64]
) -> None:
    for row in range(highs.size):
        start, end = offsets[row], offsets[row + 1]
        high, low, at = seed, seed, start
        while end - at >= 16:
            high, low = _block(high, low, _read(data, at, end), _read(data, at + 8, end))
            at += 16
        low ^= _scramble_2(_read(data, at + 8, end))
        high ^= _scramble_1(_read(data, at, end))
        highs[row], lows[row] = _finish(high, low, end - start)


@njit(cache=True)
def _kernel_one_word(words: NDArray[np.int64], seed: Any, highs: NDArray[np.uint64], lows: NDArray[np.uint64]) -> None:
    for row in range(words.size):
        highs[row], lows[row] = _finish(seed ^ _scramble_1(uint64(words[row])), seed, 8)


@njit(cache=True)
def _kernel_replicas(channel: Any, seed: Any, highs: NDArray[np.uint64], lows: NDArray[np.uint64]) -> None:
    for replica in range(highs.size):
        high, low = _block(seed, seed, uint64(channel), uint64(replica))
        highs[replica], lows[replica] = _finish(high, low, 16)
