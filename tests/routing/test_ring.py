import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import RoutingError
from unskew.routing.ring import _KEY_SEED_OFFSET, Ring, _kernel_hash_keys

KEYS = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20_000)
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


def slow_lookup(ring: Ring, key: int) -> int:
    """First replica at or clockwise after the key, by 128-bit integers."""
    hi, lo = slow_murmur3(struct.pack("<q", key), ring.seed + _KEY_SEED_OFFSET)
    place = hi << 64 | lo
    upper, lower, owner = ring.points
    points = sorted((((int(u) << 64) | int(w)), int(c)) for u, w, c in zip(upper, lower, owner, strict=True))
    return next((channel for point, channel in points if point >= place), points[0][1])


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 20), st.integers(0, 1000), st.integers(-(2**63), 2**63 - 1))
def test_a_key_belongs_to_the_first_point_at_or_after_it(channels: int, replicas: int, seed: int, key: int) -> None:
    ring = Ring(channels, replicas, seed)
    assert ring.lookup([key]).tolist() == [slow_lookup(ring, key)]


@settings(max_examples=20)
@given(st.integers(1, 40), st.integers(0, 1000))
def test_adding_a_channel_moves_keys_to_it_alone(channels: int, seed: int) -> None:
    small, large = (Ring(n, replicas=100, seed=seed).lookup(KEYS) for n in (channels, channels + 1))
    moved = small != large
    assert np.all(large[moved] == channels)
    assert moved.mean() == pytest.approx(1 / (channels + 1), rel=0.6)
    assert np.array_equal(moved, large == channels), "removing the highest channel moves only its keys"


def test_a_ring_is_a_subset_of_the_next_one() -> None:
    small, large = ({*zip(*Ring(n, 50).points, strict=True)} for n in (4, 5))
    assert small < large


def test_one_thousand_replicas_give_shares_within_about_ten_percent() -> None:
    shares = np.bincount(Ring(10).lookup(np.arange(1_000_000)))
    assert shares.max() / shares.min() < 1.2


def test_one_channel_takes_everything() -> None:
    assert not Ring(1, 3).lookup(KEYS).any()


def test_a_ring_without_channels_is_refused() -> None:
    with pytest.raises(RoutingError, match="one channel and one replica"):
        Ring(0)


def test_a_seed_of_more_than_32_bits_is_refused() -> None:
    for seed in (-1, 2**32):
        with pytest.raises(RoutingError, match="32-bit"):
            Ring(2, seed=seed)


@pytest.mark.parametrize(
    ("message", "hexadecimal"),
    [
        (b"", "00000000000000000000000000000000"),
        (b"hello", "cbd8a7b341bd9b025b1e906a48ae1d19"),
        (b"hello, world", "342fac623a5ebc8e4cdcbc079642414d"),
        (b"The quick brown fox jumps over the lazy dog", "e34bbc7bbc071b6c7a433ca9c49a9347"),
    ],
)
def test_the_slow_reference_gives_published_vectors(message: bytes, hexadecimal: str) -> None:
    assert "{:016x}{:016x}".format(*slow_murmur3(message, 0)) == hexadecimal


def test_the_verification_value_of_smhasher() -> None:
    """The hashes of 0..255 growing bytes, seeded 256 - length, hashed together, begin with a published number."""
    hashes = b"".join(
        struct.pack("<QQ", *slow_murmur3(bytes(range(length)), seed=256 - length)) for length in range(256)
    )
    high, _ = slow_murmur3(hashes, 0)
    assert high & 0xFFFFFFFF == 0x6384BA69


@settings(deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5), st.integers(0, 2**32 - 1))
def test_keys_are_messages_of_eight_bytes(keys: list[int], seed: int) -> None:
    high, low = _kernel_hash_keys(np.array(keys, np.int64), np.uint64(seed))
    expected = [slow_murmur3(struct.pack("<q", key), seed) for key in keys]
    assert list(zip(high.tolist(), low.tolist(), strict=True)) == expected


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 20))
def test_points_are_messages_of_channel_and_replica(seed: int, channels: int, replicas: int) -> None:
    expected = {
        (*slow_murmur3(struct.pack("<qq", channel, replica), seed), channel)
        for channel in range(channels)
        for replica in range(replicas)
    }
    points = (column.tolist() for column in Ring(channels, replicas, seed).points)
    assert {*zip(*points, strict=True)} == expected
