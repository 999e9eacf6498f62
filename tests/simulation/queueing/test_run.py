"""Whole runs: who routes where, what gateways decide, and who waits."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ArgumentError
from unskew.hashing import kafka_partitions
from unskew.planners import planner
from unskew_lab.simulation.queueing import CONTENDERS, Gateway, Topic, simulate_queues
from unskew_lab.simulation.queueing.gateway import route

SMALL = Topic(partitions=6, message_seconds=1e-3, utilisation=0.85, seconds=60.0, key_count=5_000)
EVERY_10 = Gateway(hot_by="abs", hot_threshold=20)


def test_arrivals_have_the_rate_and_the_law_they_should():
    topic = dataclasses.replace(SMALL, key_count=1000, message_seconds=1e-4)
    arrivals = topic.arrivals()
    assert len(arrivals.keys) == 60 * topic.messages_per_second == pytest.approx(60 * 0.85 * 6 / 1e-4)
    gaps = np.diff(arrivals.seconds)
    assert gaps.mean() == pytest.approx(1 / topic.messages_per_second, rel=0.01)
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.01)
    law = (2.72 + np.arange(1000)) ** -1.1
    assert np.bincount(arrivals.keys)[:5] / len(gaps) == pytest.approx((law / law.sum())[:5], rel=0.02)


def test_bursts_arrive_at_one_instant_and_keep_the_rate():
    arrivals = dataclasses.replace(SMALL, burst=5.0).arrivals()
    assert len(arrivals.keys) / arrivals.seconds[-1] == pytest.approx(SMALL.messages_per_second, rel=0.05)
    assert len(arrivals.keys) / len(np.unique(arrivals.seconds)) == pytest.approx(5.0, rel=0.05)


def test_keys_shift_as_often_as_they_should():
    topic = dataclasses.replace(SMALL, shift=100, shift_seconds=20.0)
    still, shifting = SMALL.arrivals(), topic.arrivals()
    assert np.array_equal(still.seconds, shifting.seconds)
    step = (still.seconds // 20).astype(int)
    assert np.array_equal(shifting.keys, (still.keys + 100 * step) % 5000)


def test_kafka_puts_keys_where_its_partitioner_does_and_round_robin_deals():
    arrivals = SMALL.arrivals()
    partition = kafka_partitions(pa.array(arrivals.keys).cast(pa.string()), 6)
    run = simulate_queues(SMALL, "kafka", arrivals=arrivals)
    assert run.messages.tolist() == np.bincount(partition).tolist()
    first = route(EVERY_10, SMALL, arrivals)
    early = arrivals.seconds < 10
    assert np.array_equal(first.partition[early], partition[early]), "before the first decision all keys are at home"
    assert np.ptp(simulate_queues(SMALL, "round-robin", arrivals=arrivals).messages) <= 1


def test_a_gateway_waits_less_than_kafka_and_more_than_round_robin():
    arrivals = SMALL.arrivals()
    runs = {c: simulate_queues(SMALL, c, gateway=EVERY_10, arrivals=arrivals) for c in CONTENDERS}
    for which in ("broker", "end_to_end"):
        p99 = {c: run.quantiles(which)[3] for c, run in runs.items()}
        assert p99["round-robin"] < p99["smalops"] < 0.7 * p99["kafka"]
    ours = runs["smalops"]
    assert (ours.end_to_end_seconds >= ours.broker_seconds).all()
    figures = ours.totals()
    assert figures["moves"] > 10 and figures["held_share"] > 0
    assert figures["broker_warm_p99_us"] == 1e6 * ours.quantiles("broker", 10.0)[3]
    begun = arrivals.seconds + ours.end_to_end_seconds
    for key in range(50):
        assert (np.diff(begun[arrivals.keys == key]) > 0).all(), "in order"
    loose = simulate_queues(SMALL, gateway=dataclasses.replace(EVERY_10, ordered=False), arrivals=arrivals)
    assert np.array_equal(loose.broker_seconds, loose.end_to_end_seconds)
    assert loose.messages.tolist() == ours.messages.tolist()


def test_a_decision_follows_from_the_window_before_it():
    arrivals = SMALL.arrivals()
    decisions = route(EVERY_10, SMALL, arrivals).decisions
    assert [d.seconds for d in decisions] == [10.0, 20.0, 30.0, 40.0, 50.0]
    for d in decisions:
        window = arrivals.keys[(arrivals.seconds >= d.seconds - 10) & (arrivals.seconds < d.seconds)]
        counts = np.bincount(window)
        assert d.messages == len(window)
        assert (counts >= 20).sum() <= d.hot_keys <= (counts >= 18).sum()


def test_several_gateways_share_the_keys():
    arrivals = SMALL.arrivals()
    one, four = (route(dataclasses.replace(EVERY_10, count=count), SMALL, arrivals).decisions[-1] for count in (1, 4))
    assert one.most_hot_keys == one.hot_keys
    assert four.hot_keys == pytest.approx(one.hot_keys, rel=0.1)
    assert one.hot_keys / 4 <= four.most_hot_keys < one.hot_keys / 2


def test_other_planners_can_be_gateways():
    arrivals = SMALL.arrivals()
    run = simulate_queues(SMALL, gateway=dataclasses.replace(EVERY_10, planner=planner("mixed")), arrivals=arrivals)
    assert run.contender == "mixed"
    assert run.quantiles()[3] < simulate_queues(SMALL, "kafka", arrivals=arrivals).quantiles()[3]


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"utilisation": 0.0}, {"seconds": -1.0}, {"burst": 0.5}])
def test_a_topic_out_of_range_is_refused(wrong):
    with pytest.raises(ArgumentError):
        Topic(**wrong)


@pytest.mark.parametrize("wrong", [{"interval_seconds": 0}, {"handover_seconds": -1}, {"count": 0}, {"hot_by": "x"}])
def test_a_gateway_out_of_range_is_refused(wrong):
    with pytest.raises(ArgumentError):
        Gateway(**wrong)
    with pytest.raises(ArgumentError, match="no such way of routing"):
        simulate_queues(SMALL, "random")
