"""Kafka's hash, against the vectors of Kafka's own tests and a plain transcription."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import kafka_hashes, kafka_partitions, murmur2
from unskew.routing import RoutingTable

PUBLISHED = {  # Kafka's UtilsTest.testMurmur2
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def plain(message: bytes) -> int:
    m, h = 0x5BD1E995, 0x9747B28C ^ len(message)
    whole = len(message) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(message[at : at + 4], "little") * m % 2**32
        k = (k ^ (k >> 24)) * m % 2**32
        h = (h * m % 2**32) ^ k
    if len(message) > whole:
        h = (h ^ int.from_bytes(message[whole:], "little")) * m % 2**32
    h = (h ^ (h >> 13)) * m % 2**32
    h ^= h >> 15
    return h - 2**32 if h >= 2**31 else h


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.string(), pa.large_string(), pa.string_view()])
def test_published_vectors(kind):
    column = pa.array([key.decode() for key in PUBLISHED]).cast(kind)
    assert murmur2(column).tolist() == list(PUBLISHED.values())
    assert murmur2(pa.chunked_array([column[:2], column[2:]])).tolist() == list(PUBLISHED.values())


def test_published_partition():
    assert kafka_partitions(pa.array([b"foobar"]), 50).tolist() == [16]
    assert kafka_partitions(pa.array([b"foobar"]), 10).tolist() == [6]


@given(st.lists(st.binary(max_size=40), max_size=20), st.integers(1, 1000))
def test_like_a_plain_transcription(messages, partitions):
    column = pa.array(messages, pa.binary())
    assert murmur2(column).tolist() == [plain(message) for message in messages]
    home = [(plain(message) & 0x7FFFFFFF) % partitions for message in messages]
    assert kafka_partitions(column, partitions).tolist() == home
    table = RoutingTable(partitions, np.arange(partitions))
    assert table.lookup(kafka_hashes(column, partitions)).tolist() == home


def test_hashes_of_many_keys_are_different_where_kafkas_are_not():
    keys = pa.array([str(i) for i in range(300_000)])
    assert len(np.unique(murmur2(keys))) < len(keys)
    assert len(np.unique(kafka_hashes(keys, 12))) == len(keys)


def test_what_cannot_be_hashed_is_refused():
    with pytest.raises(ColumnError, match="1 nulls"):
        murmur2(pa.array(["a", None]))
    with pytest.raises(ColumnError, match="only strings and binary"):
        murmur2(pa.array([1, 2]))
    with pytest.raises(ArgumentError, match="at least one partition"):
        kafka_partitions(pa.array(["a"]), 0)
