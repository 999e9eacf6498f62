"""Queues against their closed forms, and consumers against a plain play of events."""

from __future__ import annotations

import numpy as np
import pytest
from tests.simulation.queueing.reference import play

from unskew.errors import ArgumentError
from unskew.routing import RoutingTable
from unskew_lab.simulation.queueing.message_sets import MessageSets
from unskew_lab.simulation.queueing.queues import consume, kernel_wait


def test_waits_equal_the_closed_form():
    rng = np.random.default_rng(0)
    arrival, partition = np.cumsum(rng.exponential(1.0, 5000)), rng.integers(0, 3, 5000).astype(np.int32)
    free = np.zeros(3)
    waits = np.concatenate(
        [kernel_wait(arrival[part], partition[part], 2.7, free) for part in (slice(0, 2000), slice(2000, 5000))]
    )
    for p in range(3):
        a = arrival[partition == p]
        n = np.arange(len(a))
        begin = np.maximum.accumulate(a - 2.7 * n) + 2.7 * n
        assert waits[partition == p] == pytest.approx(begin - a, abs=1e-9)
        assert free[p] == pytest.approx(begin[-1] + 2.7)


@pytest.mark.parametrize("busy", [0.5, 0.8])
def test_the_mean_wait_is_that_of_m_d_1(busy):
    rng = np.random.default_rng(1)
    arrival = np.cumsum(rng.exponential(1.0, 1_000_000))
    waits = kernel_wait(arrival, np.zeros(len(arrival), np.int32), busy, np.zeros(1))
    assert waits.mean() == pytest.approx(busy * busy / (2 * (1 - busy)), rel=0.03)


def drawn(seed: int, keys=5, partitions=3, messages=120, windows=6):
    """Random messages, and keys that go anywhere at random at the end of each window."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1.0, messages))
    key = rng.integers(0, keys, messages)
    hashes = np.arange(keys, dtype=np.int64) * 1000 + rng.integers(0, partitions, keys)
    table = RoutingTable(partitions, np.arange(partitions))
    sets, markers = MessageSets(hashes, partitions), []
    partition, label = np.empty(messages, np.int32), np.empty(messages, np.int32)
    bounds = np.linspace(0, arrival[-1] + 1e-9, windows + 1)
    cuts = np.searchsorted(arrival, bounds)
    for window in range(windows):
        if window:
            chosen = np.flatnonzero(rng.random(keys) < 0.6)
            new = table.with_explicit(hashes[chosen], rng.integers(0, partitions, len(chosen)))
            moves = table.moves_to(new)
            old = {int(h): int(sets.set_of_key[h // 1000]) for h in moves.keys}
            known = len(sets)
            sets.move(moves, bounds[window])
            roots = iter(range(known, len(sets)))
            for h, source in zip(moves.keys.tolist(), moves.key_sources.tolist(), strict=True):
                closed = old[h] if old[h] >= 0 else next(roots)
                markers.append((closed, source, bounds[window]))
            table = new
        here = slice(cuts[window], cuts[window + 1])
        partition[here], label[here] = table.lookup(hashes[key[here]]), sets.set_of_key[key[here]]
        sets.sent += np.bincount(partition[here], minlength=partitions)
    return arrival, key, partition, label, sets, markers


@pytest.mark.parametrize("handover", [0.0, 7.5])
def test_consumers_act_as_in_a_plain_play_of_events(handover):
    held = compared = 0
    for seed in range(300):
        service = (0.5, 1.5, 3.0)[seed % 3]
        arrival, key, partition, label, sets, markers = drawn(seed)
        waits = consume(arrival, partition, label, sets, message_seconds=service, handover_seconds=handover)
        columns = sets.columns()
        played = play(
            arrival.tolist(),
            partition.tolist(),
            label.tolist(),
            columns["partition"].tolist(),
            columns["previous"].tolist(),
            markers,
            service,
            handover,
            3,
        )
        begins = waits.end_to_end_seconds + arrival
        for k in range(5):
            assert (np.diff(begins[key == k]) > service - 1e-9).all(), "a key's messages are processed in order"
        if played is None:
            continue
        taken, begun = played
        assert waits.broker_seconds + arrival == pytest.approx([taken[i] for i in range(len(arrival))])
        assert begins == pytest.approx([begun[i] for i in range(len(arrival))])
        compared += 1
        held += int((waits.end_to_end_seconds > waits.broker_seconds + 1e-9).sum())
        assert (waits.most_held > 0) == bool((waits.end_to_end_seconds > waits.broker_seconds).any())
    assert held > 500 and compared > 60


def test_without_moves_nothing_is_held():
    rng = np.random.default_rng(2)
    arrival, partition = np.cumsum(rng.exponential(1.0, 3000)), rng.integers(0, 4, 3000).astype(np.int32)
    sets = MessageSets(np.arange(9), 4)
    sets.sent += np.bincount(partition, minlength=4)
    waits = consume(arrival, partition, np.full(3000, -1, np.int32), sets, message_seconds=3.5)
    plain = kernel_wait(arrival, partition, 3.5, np.zeros(4))
    assert waits.broker_seconds == pytest.approx(plain, abs=1e-9)
    assert np.array_equal(waits.broker_seconds, waits.end_to_end_seconds)
    assert waits.most_held == 0


def test_a_hold_lasts_until_the_old_consumer_has_worked_off_its_backlog():
    """Ten messages of one second each wait at partition 0 when the key moves; its next message must wait for them."""
    arrival = np.append(np.arange(10) * 1e-3, 0.5)
    sets = MessageSets(np.array([4]), 2)
    before = RoutingTable(2, np.arange(2))
    sets.sent += [10, 0]
    sets.move(before.moves_to(before.with_explicit([4], [1])), now=0.1)
    partition, label = np.append(np.zeros(10), 1).astype(np.int32), np.append(np.full(10, -1), 1).astype(np.int32)
    sets.sent += [0, 1]
    waits = consume(arrival, partition, label, sets, message_seconds=1.0, handover_seconds=0.25)
    assert waits.broker_seconds[-1] == 0
    assert waits.end_to_end_seconds[-1] == pytest.approx(10.25 - 0.5)
    assert waits.most_held == 1


def test_slots_that_move_have_no_message_sets():
    before = RoutingTable(2, np.arange(2))
    with pytest.raises(ArgumentError, match="slots have moved"):
        MessageSets(np.array([4]), 2).move(before.moves_to(before.with_slots([1, 0])), now=1.0)
