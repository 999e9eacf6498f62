"""Every scheme equals its plain definition, tuple by tuple, on random streams."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.splitters import reference

from unskew.errors import ArgumentError, KeyTypeError
from unskew.splitters import SPLITTERS, splitter

NAMES = {"key", "shuffle", "static-potc", "on-greedy", "off-greedy", "pkg", "greedy-d", "d-choices", "w-choices"}

keys = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
streams = st.lists(keys, max_size=120).map(lambda drawn: [k for k in drawn for _ in range(1 + k % 3)])
starts = st.lists(st.integers(0, 20), min_size=1, max_size=12)
seeds = st.integers(0, 2**63 - 1)


def routed(scheme, hashes, loads):
    answer = scheme.route(np.array(hashes, np.int64), loads)
    expected_loads = np.array(loads) + np.bincount(answer.channels, minlength=len(loads))
    assert answer.loads.tolist() == expected_loads.tolist()
    assert answer.channels.dtype == np.int32
    return answer.channels.tolist()


def test_the_registry_has_all_schemes_with_one_line_each():
    assert set(SPLITTERS) == NAMES
    assert all(cls.summary for cls in SPLITTERS.values())


@given(streams, starts, seeds)
def test_key_grouping(hashes, loads, seed):
    assert routed(splitter("key", seed=seed), hashes, loads) == reference.key_grouping(hashes, loads, seed)


@given(streams, starts)
def test_shuffle_grouping(hashes, loads):
    assert routed(splitter("shuffle"), hashes, loads) == reference.shuffle(hashes, loads)


@given(streams, starts, seeds, st.booleans())
def test_partial_key_grouping(hashes, loads, seed, distinct):
    scheme = splitter("pkg", seed=seed, distinct=distinct)
    assert routed(scheme, hashes, loads) == reference.greedy(hashes, loads, 2, seed, distinct)


@given(streams, starts, seeds, st.booleans(), st.integers(1, 9))
def test_greedy_d(hashes, loads, seed, distinct, choices):
    scheme = splitter("greedy-d", seed=seed, distinct=distinct, choices=choices)
    assert routed(scheme, hashes, loads) == reference.greedy(hashes, loads, choices, seed, distinct)


@given(streams, starts, seeds, st.booleans())
def test_static_potc(hashes, loads, seed, distinct):
    scheme = splitter("static-potc", seed=seed, distinct=distinct)
    assert routed(scheme, hashes, loads) == reference.static_potc(hashes, loads, seed, distinct)


@given(streams, starts)
def test_on_greedy(hashes, loads):
    assert routed(splitter("on-greedy"), hashes, loads) == reference.on_greedy(hashes, loads)


@given(streams, starts)
def test_off_greedy(hashes, loads):
    assert routed(splitter("off-greedy"), hashes, loads) == reference.off_greedy(hashes, loads)


@given(
    streams,
    starts,
    seeds,
    st.booleans(),
    st.sampled_from(["d-choices", "w-choices"]),
    st.sampled_from([0.5, 0.25, 0.1]),
    st.integers(1, 60),
)
def test_heavy_keys(hashes, loads, seed, distinct, name, threshold, refresh_tuples):
    options = {"seed": seed, "distinct": distinct, "threshold": threshold, "refresh_tuples": refresh_tuples}
    expected = reference.heavy(hashes, loads, everywhere=name == "w-choices", **options)
    assert routed(splitter(name, **options), hashes, loads) == expected


def test_heavy_keys_with_default_parameters_on_a_longer_stream():
    hashes = np.random.default_rng(5).zipf(1.3, 6_000)
    for name in ("d-choices", "w-choices"):
        expected = reference.heavy(
            hashes.tolist(),
            [0] * 30,
            everywhere=name == "w-choices",
            threshold=1 / 150,
            refresh_tuples=100_000,
        )
        assert routed(splitter(name), hashes, [0] * 30) == expected


@pytest.mark.parametrize("name", sorted(NAMES - {"off-greedy"}))
@settings(max_examples=50)
@given(streams, starts, st.lists(st.integers(0, 200), max_size=3))
def test_a_stream_cut_into_calls_is_routed_as_the_whole(name, hashes, loads, cuts):
    small = {"threshold": 0.1, "refresh_tuples": 30} if name in ("d-choices", "w-choices") else {}
    scheme, column = splitter(name, **small), np.array(hashes, np.int64)
    whole = scheme.route(column, loads)
    parts, memory = [], None
    for part in np.split(column, sorted(min(cut, len(column)) for cut in cuts)):
        answer = scheme.route(part, loads, memory)
        loads, memory = answer.loads, answer.memory
        parts.append(answer.channels)
    assert np.concatenate(parts).tolist() == whole.channels.tolist()
    assert loads.tolist() == whole.loads.tolist()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_what_is_handed_in_stays_as_it_is(name):
    scheme, loads, hashes = splitter(name), np.arange(20), np.random.default_rng(0).zipf(1.5, 5_000)
    first = scheme.route(hashes, loads)
    before = hashes.copy()
    again = scheme.route(hashes, loads, first.memory)
    assert loads.tolist() == list(range(20))
    assert hashes.tolist() == before.tolist()
    assert scheme.route(hashes, loads, first.memory).channels.tolist() == again.channels.tolist()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_key_lives_on_no_more_channels_than_the_scheme_says(name):
    scheme, hashes = splitter(name), np.random.default_rng(1).zipf(1.3, 20_000)
    channels = scheme.route(hashes, np.zeros(30)).channels
    pairs = {(h, c) for h, c in zip(hashes.tolist(), channels.tolist(), strict=True)}
    counts = np.unique([h for h, _ in pairs], return_counts=True)[1]
    assert counts.max() <= scheme.most_channels(30)


def test_whole_keys_stay_where_memory_has_them():
    for name in ("static-potc", "on-greedy", "off-greedy"):
        scheme = splitter(name)
        first = scheme.route(np.array([1, 2, 3]), [0, 0, 0])
        later = scheme.route(np.array([3, 2, 1]), [9, 9, 0], first.memory)
        assert later.channels.tolist() == first.channels.tolist()[::-1]
        assert later.loads.sum() == 21


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: splitter("pkg", choices=3), ArgumentError, "has no parameter 'choices'.*distinct, seed"),
        (lambda: splitter("pgk"), ArgumentError, "did you mean 'pkg'"),
        (lambda: splitter("pkg", seed=-1), ArgumentError, "got -1"),
        (lambda: splitter("greedy-d", choices=0), ArgumentError, "at least one choice, got 0"),
        (lambda: splitter("d-choices", threshold=2.0), ArgumentError, r"share of the tuples, got 2.0 \(in d-choices\)"),
        (lambda: splitter("w-choices", refresh_tuples=0), ArgumentError, "got 0"),
        (lambda: splitter("d-choices", tolerated_share=-0.1), ArgumentError, "got -0.1"),
        (lambda: splitter("pkg").route(np.array([1]), []), ArgumentError, "workers, got 0"),
        (lambda: splitter("pkg").route(np.array([1]), [[1, 2]]), ArgumentError, "one number per channel"),
        (lambda: splitter("pkg").route(np.array(["a"]), [0]), KeyTypeError, "hash the key column first"),
    ],
)
def test_wrong_parameters_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
