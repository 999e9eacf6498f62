"""XXH64 over whole columns: each kernel folds one column into the running hashes, in place.

All arithmetic is on ``uint64``, because numba turns a mix of signed and unsigned integers into floats.

References
----------
Y. Collet, "XXH64 algorithm description", the XXHASH specification, version 0.1.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

Hashes = NDArray[np.uint64]

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_NAN_32, _INFINITY_32, _MAGNITUDE_32 = np.uint32(0x7FC00000), np.uint32(0x7F800000), np.uint32(0x7FFFFFFF)
_NAN_64, _INFINITY_64 = np.uint64(0x7FF8000000000000), np.uint64(0x7FF0000000000000)
_MAGNITUDE_64 = np.uint64(0x7FFFFFFFFFFFFFFF)


@njit(cache=True)
def _rotate(word: Any, bits: Any) -> Any:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@njit(cache=True)
def _avalanche(hashed: Any) -> Any:
    hashed ^= hashed >> uint64(33)
    hashed *= _PRIME_2
    hashed ^= hashed >> uint64(29)
    hashed *= _PRIME_3
    return hashed ^ (hashed >> uint64(32))


@njit(cache=True)
def _round(accumulator: Any, word: Any) -> Any:
    return _rotate(accumulator + word * _PRIME_2, 31) * _PRIME_1


@njit(cache=True)
def _mix_word(hashed: Any, word: Any) -> Any:
    return _rotate(hashed ^ _round(uint64(0), word), 27) * _PRIME_1 + _PRIME_4


@njit(cache=True)
def _mix_half(hashed: Any, half: Any) -> Any:
    return _rotate(hashed ^ half * _PRIME_1, 23) * _PRIME_2 + _PRIME_3


@njit(cache=True)
def _hash_int(value: Any, seed: Any) -> Any:
    return _avalanche(_mix_half(seed + _PRIME_5 + uint64(4), uint64(value)))


@njit(cache=True)
def _hash_long(value: Any, seed: Any) -> Any:
    return _avalanche(_mix_word(seed + _PRIME_5 + uint64(8), value))


@njit(cache=True)
def _read_half(data: Any, at: Any) -> Any:
    # LLVM turns the four shifted bytes into one unaligned load; unsigned indices avoid wrap-around checks
    return (
        uint64(data[at])
        | uint64(data[at + uint64(1)]) << uint64(8)
        | uint64(data[at + uint64(2)]) << uint64(16)
        | uint64(data[at + uint64(3)]) << uint64(24)
    )


@njit(cache=True)
def _read_word(data: Any, at: Any) -> Any:
    return _read_half(data, at) | _read_half(data, at + uint64(4)) << uint64(32)


@njit(cache=True)
def _hash_bytes(data: Any, start: Any, length: Any, seed: Any) -> Any:
    at, end = start, start + length
    if length >= uint64(32):
        a, b, c, d = seed + _PRIME_1 + _PRIME_2, seed + _PRIME_2, seed, seed - _PRIME_1
        while at + uint64(32) <= end:
            a = _round(a, _read_word(data, at))
            b = _round(b, _read_word(data, at + uint64(8)))
            c = _round(c, _read_word(data, at + uint64(16)))
            d = _round(d, _read_word(data, at + uint64(24)))
            at += uint64(32)
        hashed = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        hashed = (hashed ^ _round(uint64(0), a)) * _PRIME_1 + _PRIME_4
        hashed = (hashed ^ _round(uint64(0), b)) * _PRIME_1 + _PRIME_4
        hashed = (hashed ^ _round(uint64(0), c)) * _PRIME_1 + _PRIME_4
        hashed = (hashed ^ _round(uint64(0), d)) * _PRIME_1 + _PRIME_4
    else:
        hashed = seed + _PRIME_5
    hashed += length
    while at + uint64(8) <= end:
        hashed = _mix_word(hashed, _read_word(data, at))
        at += uint64(8)
    if at + uint64(4) <= end:
        hashed = _mix_half(hashed, _read_half(data, at))
        at += uint64(4)
    while at < end:
        hashed = _rotate(hashed ^ uint64(data[at]) * _PRIME_5, 11) * _PRIME_1
        at += uint64(1)
    return _avalanche(hashed)


@njit(cache=True)
def _kernel_ints(values: NDArray[Any], hashes: Hashes) -> None:
    """Fold integers of at most 32 bits, sign-extended to 32."""
    for row in range(values.size):
        hashes[row] = _hash_int(np.uint32(values[row]), hashes[row])


@njit(cache=True)
def _kernel_longs(values: NDArray[Any], hashes: Hashes) -> None:
    for row in range(values.size):
        hashes[row] = _hash_long(uint64(values[row]), hashes[row])


@njit(cache=True)
def _canonical(pattern: Any, magnitude: Any, infinity: Any, nan: Any) -> Any:
    """Give both zeros the bits of +0, and every NaN the bits of the canonical one."""
    if magnitude == 0:
        return uint64(0)
    return uint64(nan) if magnitude > infinity else uint64(pattern)


@njit(cache=True)
def _kernel_floats(patterns: NDArray[np.uint32], hashes: Hashes) -> None:
    for row in range(patterns.size):
        pattern = _canonical(patterns[row], patterns[row] & _MAGNITUDE_32, _INFINITY_32, _NAN_32)
        hashes[row] = _hash_int(pattern, hashes[row])


@njit(cache=True)
def _kernel_doubles(patterns: NDArray[np.uint64], hashes: Hashes) -> None:
    for row in range(patterns.size):
        pattern = _canonical(patterns[row], patterns[row] & _MAGNITUDE_64, _INFINITY_64, _NAN_64)
        hashes[row] = _hash_long(pattern, hashes[row])


@njit(cache=True)
def _kernel_bytes(offsets: NDArray[Any], data: NDArray[np.uint8], hashes: Hashes) -> None:
    for row in range(hashes.size):
        start = uint64(offsets[row])
        hashes[row] = _hash_bytes(data, start, uint64(offsets[row + 1]) - start, hashes[row])


@njit(cache=True)
def _kernel_wide_decimals(words: NDArray[np.uint64], hashes: Hashes) -> None:
    """Fold 128-bit integers (low word first) as Java writes them: big-endian, in as few bytes as keep the sign."""
    message = np.empty(16, np.uint8)
    for row in range(hashes.size):
        low, high = words[row, 0], words[row, 1]
        for place in range(8):
            shift = uint64(56 - 8 * place)
            message[place] = np.uint8(high >> shift & uint64(0xFF))
            message[place + 8] = np.uint8(low >> shift & uint64(0xFF))
        sign = np.uint8(0xFF) if high >> uint64(63) else np.uint8(0)
        first = 0
        while first < 15 and message[first] == sign and (message[first + 1] ^ sign) < 0x80:
            first += 1
        hashes[row] = _hash_bytes(message, uint64(first), uint64(16 - first), hashes[row])


@njit(cache=True)
def _kernel_restore_nulls(bitmap: NDArray[np.uint8], offset: int, before: Hashes, hashes: Hashes) -> None:
    for row in range(hashes.size):
        bit = uint64(offset + row)
        is_valid = bitmap[bit >> uint64(3)] >> (bit & uint64(7)) & uint64(1)
        hashes[row] = hashes[row] if is_valid else before[row]
