"""Stable hashes: the same for a key on every machine, in every process and in Spark itself."""

from unskew.hashing.key_types import check_key_type
from unskew.hashing.murmur2 import kafka_hashes, kafka_partitions, murmur2
from unskew.hashing.murmur3 import hash128_bytes, hash128_int64, murmur3_x64_128, ring_positions
from unskew.hashing.xxhash64 import hash_keys, xxhash64

__all__ = [
    "check_key_type",
    "hash128_bytes",
    "hash128_int64",
    "hash_keys",
    "kafka_hashes",
    "kafka_partitions",
    "murmur2",
    "murmur3_x64_128",
    "ring_positions",
    "xxhash64",
]
