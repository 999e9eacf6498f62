"""Several sources: what each knows of the loads, and what comes of it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.splitters import reference

from unskew.errors import ArgumentError
from unskew.splitters import SPLITTERS, splitter
from unskew.splitters.outcome import agreement, count_counters, imbalance_curve
from unskew.splitters.stream import feed_sources, split_stream

keys = st.one_of(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1))
streams = st.lists(st.tuples(keys, st.integers(0, 3)), max_size=80)


def plain_pkg(stream, workers, estimate, probe_tuples):
    """Two choices under each estimate, one tuple at a time, in order of time."""
    true, known, channels = [0] * workers, defaultdict(lambda: [0] * workers), []
    for place, (key, source) in enumerate(stream):
        if estimate == "probed" and place and place % probe_tuples == 0:
            known = defaultdict(lambda: None, {s: list(true) for s in range(4)})
        loads = true if estimate == "global" else known[source]
        chosen = reference.least(loads, reference.candidates(key, workers, 2))
        if loads is not true:
            loads[chosen] += 1
        true[chosen] += 1
        channels.append(chosen)
    return channels


@given(streams, st.integers(1, 7), st.sampled_from(["global", "local", "probed"]), st.integers(1, 30))
def test_estimates_are_what_their_definitions_say(stream, workers, estimate, probe_tuples):
    hashes = np.array([key for key, _ in stream], np.int64)
    sources = np.array([source for _, source in stream], np.int32)
    run = split_stream(splitter("pkg"), hashes, workers, sources=sources, estimate=estimate, probe_tuples=probe_tuples)
    assert run.channels.tolist() == plain_pkg(stream, workers, estimate, probe_tuples)


@pytest.mark.parametrize("name", sorted(SPLITTERS))
@pytest.mark.parametrize("estimate", ["global", "local", "probed"])
@settings(max_examples=25)
@given(stream=streams, workers=st.integers(1, 7))
def test_local_imbalances_bound_the_imbalance_of_all(name, estimate, stream, workers):
    scheme = splitter(name)
    hashes = np.array([key for key, _ in stream], np.int64)
    sources = np.array([source for _, source in stream], np.int32)
    if scheme.shares_memory:
        estimate = "global"
    run = split_stream(scheme, hashes, workers, sources=sources, estimate=estimate, probe_tuples=7)
    curve = imbalance_curve(run)
    loads = np.zeros((4, workers))
    for place, (source, channel) in enumerate(zip(run.sources, run.channels, strict=True)):
        loads[source, channel] += 1
        total = loads.sum(axis=0)
        assert curve.imbalance[place] == pytest.approx(total.max() - total.mean())
        assert curve.bound[place] == pytest.approx(sum(own.max() - own.mean() for own in loads))
    assert (curve.imbalance <= curve.bound + 1e-9).all()
    assert curve.tuples.tolist() == list(range(1, len(stream) + 1))


@given(streams, st.integers(1, 130))
def test_counters_are_distinct_pairs_of_key_and_channel(stream, workers):
    run = split_stream(splitter("shuffle"), np.array([key for key, _ in stream], np.int64), workers)
    pairs = set(zip(run.hashes.tolist(), run.channels.tolist(), strict=True))
    counters = count_counters(run)
    assert counters.per_worker.tolist() == [sum(c == w for _, c in pairs) for w in range(workers)]
    assert counters.keys == len({key for key, _ in stream})
    spread = [sum(key == k for k, _ in pairs) for key in {key for key, _ in pairs}]
    assert counters.most_channels == max(spread, default=0)


def test_the_three_fractions_of_a_saturated_run():
    """One key on one of four channels: I(t) = 3t/4, so the average is half of what the end has."""
    curve = imbalance_curve(split_stream(splitter("key"), np.zeros(10_000, np.int64), 4))
    assert curve.at_end == pytest.approx(0.75)
    assert curve.relative == pytest.approx(0.75)
    assert curve.average == pytest.approx(0.75 / 2, rel=2e-3)
    assert len(curve.tuples) == 1000


def test_sources_are_fed_in_turn_or_by_hash():
    hashes = np.repeat(np.arange(1000), 3)
    assert feed_sources(hashes, 3)[:6].tolist() == [0, 1, 2, 0, 1, 2]
    by_hash = feed_sources(hashes, 4, "hash").reshape(1000, 3)
    assert (by_hash == by_hash[:, :1]).all()
    assert np.bincount(by_hash[:, 0]).min() > 200


def test_sources_fed_by_hash_do_not_follow_the_first_choice_of_a_scheme():
    hashes = np.arange(40_000)
    same = feed_sources(hashes, 8, "hash") == splitter("key").route(hashes, np.zeros(8)).channels
    assert 0.11 < same.mean() < 0.14


def test_agreement_is_the_share_of_equal_choices_and_their_overlap():
    one = split_stream(splitter("shuffle"), np.arange(4), 2)
    other = split_stream(splitter("shuffle"), np.arange(4), 4)
    assert agreement(one, one).jaccard == 1
    assert agreement(one, other).equal == 0.5
    sets = [set(enumerate(run.channels.tolist())) for run in (one, other)]
    assert agreement(one, other).jaccard == pytest.approx(len(sets[0] & sets[1]) / len(sets[0] | sets[1]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": 0}, "at least one source, got 0"),
        ({"estimate": "guessed"}, "got 'guessed'. Hint: one of global, local, probed"),
        ({"probe_tuples": 0}, "probe_tuples must be at least 1, got 0"),
        ({"sources": np.zeros(3, np.int32)}, "one source, not negative, per tuple"),
        ({"workers": 0}, "workers, got 0"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(ArgumentError, match=message):
        split_stream(splitter("pkg"), np.arange(5), **{"workers": 3, **options})


def test_schemes_with_one_owner_per_key_need_the_truth():
    with pytest.raises(ArgumentError, match=r"all sources have to agree, got 'local estimates of 2 sources'.*Hint"):
        split_stream(splitter("on-greedy"), np.arange(5), 3, sources=2, estimate="local")
    assert len(split_stream(splitter("on-greedy"), np.arange(5), 3, estimate="local").channels) == 5
