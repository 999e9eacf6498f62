"""Order restored in batches of any size, with the state packed and unpacked in between."""

from __future__ import annotations

import random

import pytest
from tests.kafka.test_interleavings import Gateway, Topic

from unskew.errors import FormatError
from unskew.kafka.batches import order_batch
from unskew.kafka.decision import GatewayDecision
from unskew.kafka.holds import Spill
from unskew.kafka.messages import CLOSE, OPEN, Mark, Record


def run(seed):
    rng = random.Random(seed)
    topic = Topic(rng.randint(2, 4), rng)
    keys = [b"key%d" % i for i in range(rng.randint(1, 4))]
    gateway = Gateway(topic, rng, keys, GatewayDecision.cold(len(topic.partitions), now_ms=1_700_000_000_000))
    memory = rng.choice([0, 1 << 20])
    positions, state = [0] * len(topic.partitions), None
    seen, alarms, held, duplicates = {}, [], 0, 0

    def batch(all_of_it):
        nonlocal state, held, duplicates
        records = []
        for partition in rng.sample(range(len(positions)), len(positions)):
            many = 10**9 if all_of_it else rng.randint(0, 6)
            while many and (record := topic.read(partition, positions[partition])) is not None:
                records.append(record)
                positions[partition] = record.offset + 1
                many -= 1
        done = order_batch(state, records, spill=Spill(memory), drain_limit=rng.choice([1, 1000]))
        assert done == order_batch(state, records)
        state = done.state
        held += done.held
        duplicates += done.duplicates
        alarms.extend(done.alarms)
        for record in done.records:
            seen.setdefault(record.key, []).append(record.value)

    for _ in range(rng.randint(5, 30)):
        if rng.random() < 0.4:
            gateway.batch()
        else:
            batch(False)
    batch(True)
    assert seen == {key: values for key, values in gateway.sent.items() if values}, f"seed {seed}"
    assert not alarms, f"seed {seed}"
    return held, duplicates


def test_any_batches_give_the_gateways_order():
    runs = [run(seed) for seed in range(200)]
    assert sum(held for held, _ in runs) > 250
    assert sum(duplicates for _, duplicates in runs) > 50


def test_waiting_goes_on_from_batch_to_batch():
    opening = Mark(OPEN, 11, neighbour=10, partition=0).headers()
    records = [Record(1, 0, b"k", None, opening), Record(1, 1, b"k", b"b")]
    first = order_batch(None, records, now=100.0, hold_seconds=50, on_timeout="release")
    second = order_batch(first.state, [], now=149.0, hold_seconds=50, on_timeout="release")
    third = order_batch(second.state, [], now=151.0, hold_seconds=50, on_timeout="release")
    assert [len(done.records) for done in (first, second, third)] == [0, 0, 1]
    assert [alarm.kind for alarm in third.alarms] == ["order_violation"]


def test_what_ended_before_the_first_batch_is_not_waited_for():
    """Partition 0 is read from time 200 on, and its closing marker for k lies before: k goes on, in whichever batch."""

    def opening(key, milliseconds, offset):
        mark = Mark(OPEN, 11, neighbour=10, partition=0)
        return [Record(1, offset, key, None, mark.headers(), milliseconds), Record(1, offset + 1, key, b"b")]

    late = Record(0, 7, b"x", b"x", (), 200)
    waits = order_batch(None, opening(b"k", 199, 0))
    assert waits.held == 1
    goes_on = order_batch(waits.state, [late])
    assert [record.value for record in goes_on.records] == [b"b", b"x"]
    assert order_batch(goes_on.state, opening(b"m", 199, 2)).held == 0
    assert order_batch(goes_on.state, opening(b"m", 200, 2)).held == 1
    assert order_batch(order_batch(None, [late]).state, opening(b"k", 199, 0)).held == 0, "partition 1 comes second"


def test_from_the_first_message_on_clocks_do_not_matter():
    """Whoever wrote x is ahead by 300 ms: x seems younger than what opens k, of which a message is to come."""
    x = Record(0, 0, b"x", b"x", (), 500)
    opening = Mark(OPEN, 11, neighbour=10, partition=0).headers()
    closing = Mark(CLOSE, 10, neighbour=11, partition=1).headers()
    there = [Record(1, 0, b"k", None, opening, 202), Record(1, 1, b"k", b"b", (), 203)]
    here = [Record(0, 1, b"k", b"a", (), 200), Record(0, 2, b"k", None, closing, 201)]
    first = order_batch(None, [x, *there], whole=True)
    assert ([record.value for record in first.records], first.held) == ([b"x"], 1)
    assert [record.value for record in order_batch(first.state, here, whole=True).records] == [b"a", b"b"]


def test_a_key_that_waits_long_is_reported_by_one_batch():
    opening = Mark(OPEN, 11, neighbour=10, partition=0).headers()
    done = order_batch(None, [Record(1, 0, b"k", None, opening)], now=100.0)
    alarms = []
    for now in (350.0, 401.0, 402.0, 900.0):
        done = order_batch(done.state, [], now=now)
        alarms.append([alarm.kind for alarm in done.alarms])
    assert alarms == [[], ["long_hold"], [], []]


def test_other_bytes_are_refused():
    with pytest.raises(FormatError):
        order_batch(b"abc", [])
    with pytest.raises(FormatError):
        order_batch(b"\0\0\0\0\3\0\0\0abc", [])
