import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import RoutingError
from unskew.hashing.murmur3 import hash128_int64
from unskew.routing.ring import _KEY_SEED_OFFSET, Ring

KEYS = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 20_000)


def slow_lookup(ring: Ring, key: int) -> int:
    """First replica at or clockwise after the key, by 128-bit integers."""
    (hi,), (lo,) = hash128_int64(np.array([key]), ring.seed + _KEY_SEED_OFFSET)
    place = (int(hi) << 64) | int(lo)
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
    with pytest.raises(RoutingError, match="a channel and a replica"):
        Ring(0)
