"""The bench of delays: the load it offers, and every message accounted for on a real broker."""

from __future__ import annotations

import numpy as np
import pytest

from unskew_lab.bench.kafka_delays import Load, measure


def test_the_load_has_its_rate_and_its_law():
    load = Load(50e-6, seconds=60.0)
    times, ranks = load.messages()
    assert len(times) == pytest.approx(load.rate * 60, rel=0.02)
    assert (np.diff(times) >= 0).all()
    assert (times < 60).all()
    weight = (2.72 + np.arange(load.keys)) ** -1.1
    assert (ranks == 0).mean() == pytest.approx(weight[0] / weight.sum(), rel=0.1)
    assert Load(20e-6).rate == Load(50e-6).rate, "slower consumers, not more messages"


@pytest.mark.kafka
@pytest.mark.parametrize(
    "contender",
    [pytest.param("kafka", marks=pytest.mark.slow), "smalops", pytest.param("round-robin", marks=pytest.mark.slow)],
)
def test_every_message_is_measured(broker, new_topic, contender):
    load = Load(50e-6, partitions=3, keys=50, seconds=2.0, interval_seconds=0.5)
    found = measure(broker.bootstrap, new_topic(3), contender, load)
    assert len(found.came) == len(load.messages()[0])
    assert (found.end_to_end >= found.broker).all()
    assert (found.queueing >= 0).all()
    assert (found.moves > 0) == (contender == "smalops")
    if contender == "round-robin":
        assert found.share_of_fullest == pytest.approx(1.0, abs=0.01)
