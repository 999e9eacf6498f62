"""Kafka's MurmurHash2, by which its partitioner chooses a partition.

References
----------
A. Appleby, MurmurHash2, 32 bits, with the seed 0x9747b28c: ``org.apache.kafka.common.utils.Utils.murmur2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, uint32, uint64
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError, require_number
from unskew.hashing.buffers import byte_ranges, is_bytes
from unskew.hashing.kernels import _read_half
from unskew.hashing.xxhash64 import xxhash64

_SEED = np.uint32(0x9747B28C)
_FACTOR = np.uint32(0x5BD1E995)


def murmur2(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int32]:
    """Hash every row of a string or binary array as Kafka does. Nulls are refused: Kafka does not hash null keys."""
    if column.null_count:
        raise ColumnError("a null has no bytes to hash", got=f"{column.null_count} nulls", hint="drop or fill them")
    if not is_bytes(column.type):
        hint = "serialise the key as the producer does"
        raise ColumnError("only strings and binary values can be hashed", got=str(column.type), hint=hint)
    hashes = np.empty(len(column), np.int32)
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        _kernel_murmur2(*byte_ranges(chunk), hashes[start : start + len(chunk)])
        start += len(chunk)
    return hashes


def kafka_partitions(column: pa.Array | pa.ChunkedArray, partitions: int) -> NDArray[np.int32]:
    """Return the partition that Kafka's partitioner chooses for every key: ``(murmur2 & 0x7fffffff) % partitions``."""
    require_number("partitions", partitions, most=2**31 - 1)
    if partitions < 1:
        raise ArgumentError("a topic has at least one partition", got=partitions)
    return (murmur2(column) & np.int32(0x7FFFFFFF)) % np.int32(partitions)


def kafka_hashes(column: pa.Array | pa.ChunkedArray, partitions: int) -> NDArray[np.int64]:
    """Return 64-bit hashes whose remainder by `partitions` is the partition that Kafka chooses.

    A routing table with slot i on channel i then sends keys where Kafka's partitioner would, unless they have entries
    of their own. Kafka's 32 bits would not do: among millions of keys many share a hash, and would share an entry. The
    upper bits come from `xxhash64`.
    """
    home = kafka_partitions(column, partitions).astype(np.int64)
    spread = xxhash64([column]) >> np.int64(1)  # half the range, so that no sum overflows
    return spread - spread % partitions + home


@njit(cache=True)
def _kernel_murmur2(offsets: NDArray[Any], data: NDArray[np.uint8], hashes: NDArray[np.int32]) -> None:
    for row in range(hashes.size):
        first, last = offsets[row], offsets[row + 1]
        length = last - first
        h = uint32(_SEED ^ uint32(length))
        at = first
        while last - at >= 4:
            k = uint32(_read_half(data, uint64(at)))
            k = uint32(k * _FACTOR)
            k = uint32(k ^ (k >> uint32(24)))
            k = uint32(k * _FACTOR)
            h = uint32(uint32(h * _FACTOR) ^ k)
            at += 4
        left = last - at
        if left >= 3:
            h = uint32(h ^ (uint32(data[at + 2]) << uint32(16)))
        if left >= 2:
            h = uint32(h ^ (uint32(data[at + 1]) << uint32(8)))
        if left >= 1:
            h = uint32(uint32(h ^ uint32(data[at])) * _FACTOR)
        h = uint32(h ^ (h >> uint32(13)))
        h = uint32(h * _FACTOR)
        hashes[row] = np.int32(uint32(h ^ (h >> uint32(15))))
