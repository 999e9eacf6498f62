"""Kafka's MurmurHash2: where its own partitioner sends a key.

References
----------
A. Appleby, MurmurHash2, 32 bits, with the seed 0x9747b28c: ``org.apache.kafka.common.utils.Utils.murmur2``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numba import njit, uint32
from numpy.typing import NDArray

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing.buffers import byte_ranges
from unskew.hashing.xxhash64 import xxhash64

_SEED = np.uint32(0x9747B28C)
_FACTOR = np.uint32(0x5BD1E995)


def murmur2(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int32]:
    """Hash every row of a string or binary array as Kafka does. Nulls are refused: Kafka spreads keyless messages.

    Examples
    --------
    >>> murmur2(pa.array(["21", "foobar"])).tolist()
    [-973932308, -790332482]
    """
    if column.null_count:
        raise ColumnError("a null has no bytes to hash", got=f"{column.null_count} nulls", hint="drop or fill them")
    kind = column.type
    if not (pa.types.is_fixed_size_binary(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
        if not (large or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)):
            raise ColumnError("only bytes can be hashed", got=str(kind), hint="serialise the key as the producer does")
    hashes = np.empty(len(column), np.int32)
    start = 0
    for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
        _kernel_murmur2(*byte_ranges(chunk), hashes[start : start + len(chunk)])
        start += len(chunk)
    return hashes


def kafka_partitions(column: pa.Array | pa.ChunkedArray, partitions: int) -> NDArray[np.int32]:
    """Return the partition that Kafka's own partitioner gives every key: ``(murmur2 & 0x7fffffff) % partitions``.

    Examples
    --------
    >>> kafka_partitions(pa.array([b"foobar"]), 50).tolist()
    [16]
    """
    if partitions < 1:
        raise ArgumentError("a topic has at least one partition", got=partitions)
    return (murmur2(column) & np.int32(0x7FFFFFFF)) % np.int32(partitions)


def kafka_hashes(column: pa.Array | pa.ChunkedArray, partitions: int) -> NDArray[np.int64]:
    """Return 64-bit hashes whose remainder by `partitions` is Kafka's own partition.

    A routing table with as many slots as partitions, slot i on channel i, sends all keys home to where Kafka's
    partitioner would; entries for single keys are then the only difference. Kafka's own 32 bits would not do: among
    millions of keys many share a hash, and would share an entry. These have the upper bits of `xxhash64`.

    Examples
    --------
    >>> from unskew.routing import RoutingTable
    >>> keys = pa.array(["ada", "bob", "foobar"])
    >>> table = RoutingTable(50, np.arange(50))
    >>> table.lookup(kafka_hashes(keys, 50)).tolist() == kafka_partitions(keys, 50).tolist()
    True
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
            k = uint32(
                uint32(data[at])
                | (uint32(data[at + 1]) << uint32(8))
                | (uint32(data[at + 2]) << uint32(16))
                | (uint32(data[at + 3]) << uint32(24))
            )
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
