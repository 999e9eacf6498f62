from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash128_bytes, hash128_int64, murmur3_x64_128, ring_positions

WORD = 2**64 - 1


def slow_murmur3(message: bytes, seed: int) -> tuple[int, int]:
    """Follow the reference code of MurmurHash3_x64_128 step by step."""

    def rotate(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & WORD

    def mix(word: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            word = (word ^ word >> 33) * factor & WORD
        return word ^ word >> 33

    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    h1 = h2 = seed
    body = len(message) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", message[:body]):
        h1 ^= rotate(k1 * c1 & WORD, 31) * c2 & WORD
        h1 = ((rotate(h1, 27) + h2) * 5 + 0x52DCE729) & WORD
        h2 ^= rotate(k2 * c2 & WORD, 33) * c1 & WORD
        h2 = ((rotate(h2, 31) + h1) * 5 + 0x38495AB5) & WORD
    k1, k2 = struct.unpack("<QQ", message[body:].ljust(16, b"\0"))
    h2 ^= rotate(k2 * c2 & WORD, 33) * c1 & WORD
    h1 ^= rotate(k1 * c1 & WORD, 31) * c2 & WORD
    h1 ^= len(message)
    h2 ^= len(message)
    h1 = (h1 + h2) & WORD
    h2 = (h2 + h1) & WORD
    h1, h2 = mix(h1), mix(h2)
    h1 = (h1 + h2) & WORD
    return h1, (h2 + h1) & WORD


@pytest.mark.parametrize(
    ("message", "hexadecimal"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"hello, world", "342fac623a5ebc8e4cdcbc079642414d"),
        (b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_published_vectors(message: bytes, hexadecimal: str) -> None:
    assert "{:016x}{:016x}".format(*murmur3_x64_128(message)) == hexadecimal


def test_the_verification_value_of_smhasher() -> None:
    """The hashes of 0..255 growing bytes, seeded 256 - length, hashed together, begin with a published number."""
    hashes = b"".join(
        struct.pack("<QQ", *murmur3_x64_128(bytes(range(length)), seed=256 - length)) for length in range(256)
    )
    high, _ = murmur3_x64_128(hashes)
    assert high & 0xFFFFFFFF == 0x6384BA69


@settings(deadline=None)
@given(st.lists(st.binary(max_size=70), max_size=5), st.integers(0, 2**32 - 1))
def test_bytes_against_the_slow_reference(messages: list[bytes], seed: int) -> None:
    high, low = hash128_bytes(pa.array([b"before", *messages], pa.binary()).slice(1), seed)
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == [slow_murmur3(message, seed) for message in messages]


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(0, 2**32 - 1))
def test_integers_are_messages_of_eight_bytes(values: list[int], seed: int) -> None:
    high, low = hash128_int64(np.array(values, np.int64), seed)
    expected = [slow_murmur3(struct.pack("<q", value), seed) for value in values]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 2**31), st.integers(0, 20))
def test_replicas_are_messages_of_channel_and_replica(seed: int, channel: int, replicas: int) -> None:
    high, low = ring_positions(seed, channel, replicas)
    expected = [slow_murmur3(struct.pack("<qq", channel, replica), seed) for replica in range(replicas)]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


def test_strings_hash_as_their_utf8_bytes() -> None:
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        high, low = hash128_bytes(pa.array(["ß"], kind), seed=13)
        assert (int(high[0]), int(low[0])) == murmur3_x64_128("ß".encode(), seed=13)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="32 bits"):
        murmur3_x64_128(b"", seed=-1)
    with pytest.raises(ArgumentError, match="32 bits"):
        hash128_int64([1], seed=2**32)
    with pytest.raises(ArgumentError, match="replicas"):
        ring_positions(0, 0, -1)
    with pytest.raises(ColumnError, match="1 nulls"):
        hash128_bytes(pa.array([b"a", None]))
