"""Stable hashes: a key has the same hash on every machine, in every process, and in Spark."""

from unskew.hashing.key_types import check_key_type
from unskew.hashing.murmur2 import kafka_hashes, kafka_partitions, murmur2
from unskew.hashing.xxhash64 import hash_keys, xxhash64

__all__ = [
    "check_key_type",
    "hash_keys",
    "kafka_hashes",
    "kafka_partitions",
    "murmur2",
    "xxhash64",
]
