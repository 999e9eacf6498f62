"""The message sequence of one movement, exactly; and movements under load."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.planners import planner
from unskew_lab.simulation import Cluster, Setup, Slowdown
from unskew_lab.simulation.clock import CONTROLLER


class Once:
    """Stands in for the controller: moves one partition and stops."""

    def __init__(self, cluster):
        self.cluster, self.rounds, self.ended = cluster, [], []

    def moved(self, donor, receiver):
        self.ended.append((self.cluster.now, donor, receiver))


def cluster(**parameters):
    c = Cluster(Setup(**parameters), keep_messages=True)
    c.controller = Once(c)
    return c


def test_the_messages_of_one_movement_without_traffic():
    """Three silent sites; 1,000 tuples of state: 0.2 ms to pack, 2.56 ms on the way, 0.2 ms to unpack."""
    c = cluster(nodes=3, partitions_per_node=2, seconds=1.0, source_rate=0.0, state_tuples=1000)
    c.at(0.01, lambda: c.movements.begin(1, 0, 2))
    run = c.run()
    hop = 70e-6
    paused, acked = 0.01 + 2 * hop, 0.01 + 3 * hop
    arrived = acked + 0.2e-3 + 80_000 * 8 / 250e6
    restarted = arrived + 0.2e-3 + hop
    expected = [
        (0.01 + hop, "MOVE", CONTROLLER, 0, 1),
        (0.01 + hop, "MOVE", CONTROLLER, 2, 1),
        *[(paused, "PAUSE", 0, i, 1) for i in range(3)],
        *[(acked, "ACK", i, 0, 1) for i in range(3)],
        (arrived, "STATE", 0, 2, 1),
        *[(restarted, "RESTART", 2, i, 1) for i in (CONTROLLER, 0, 1, 2)],
    ]
    assert [message[1:] for message in run.messages] == [message[1:] for message in expected]
    assert [message.seconds for message in run.messages] == pytest.approx([message[0] for message in expected])
    assert c.controller.ended == [(pytest.approx(restarted), 0, 2)]
    assert run.table.slots.tolist() == [0, 2, 1, 1, 2, 2]


def test_an_ack_arrives_behind_the_tuples_that_were_sent_before_it():
    """Two sites, saturated: each connection to the donor holds 24 tuples, so the last ACK takes 48 of 45 us each."""
    c = cluster(nodes=2, partitions_per_node=4, seconds=1.0, deviation_seconds=1e-12)
    c.at(0.1, lambda: c.movements.begin(0, 0, 1))
    run = c.run()
    paused = max(m.seconds for m in run.messages if m.kind == "PAUSE")
    acks = [m.seconds for m in run.messages if m.kind == "ACK"]
    assert len(acks) == 2
    assert max(acks) - paused == pytest.approx(48 * 45.5e-6, abs=2 * c.setup.tick_seconds)
    assert not c.data.stalled.any()
    assert c.data.holder[0] == 1


def test_stationary_partitions_flow_while_one_moves_and_none_of_the_moving_one_is_processed():
    c = cluster(nodes=4, partitions_per_node=4, seconds=1.0, state_tuples=100_000)
    c.at(0.2, lambda: c.movements.begin(5, 1, 3))
    c._advance(0.30)
    assert c.movements.in_flight == {5}
    before = c.data.processed.copy()
    c._advance(0.32)
    after = c.data.processed - before
    assert after[5] == 0
    assert (np.delete(after, 5) > 0).all()
    c._advance(1.0)
    assert not c.movements.in_flight
    assert c.data.processed[5] > before[5]
    c.checks.all()


def test_a_pool_full_of_stalled_tuples_blocks_its_producer():
    """What the size of the pool bounds: a move that takes longer than filling it stops everything."""
    c = cluster(nodes=2, partitions_per_node=1, seconds=1.0, pool_tuples=50, state_tuples=10_000_000)
    c.at(0.1, lambda: c.movements.begin(0, 0, 1))
    c._advance(1.0)
    assert c.movements.in_flight == {0}
    assert c.data.blocked.min() > 0.4


def test_two_movements_at_once_share_the_network_and_keep_every_tuple():
    c = cluster(nodes=6, partitions_per_node=8, seconds=2.0)
    for p, donor, receiver in ((0, 0, 1), (16, 2, 3), (32, 4, 5)):
        c.at(0.5, lambda p=p, donor=donor, receiver=receiver: c.movements.begin(p, donor, receiver))
    run = c.run()
    states = [m for m in run.messages if m.kind == "STATE"]
    packed = max(m.seconds for m in run.messages if m.kind == "ACK")
    assert len(states) == 3
    assert max(m.seconds for m in states) - packed > 3 * 800_000 * 8 / 500e6
    assert len(c.controller.ended) == 3


@pytest.mark.parametrize("name", ["flux-load", "flux-hybrid", "mixed", "readj", "scan", "simple"])
def test_any_planner_can_drive_the_cluster(name):
    setup = Setup(
        nodes=6,
        partitions_per_node=10,
        seconds=4.0,
        pool_tuples=256,
        slowdowns=(Slowdown(2, 0.5),),
        planner=planner(name),
        shortest_collection_seconds=0.1,
        state_tuples=500,
    )
    c = Cluster(setup, keep_messages=True)
    run = c.run()
    assert run.moves > 0
    assert run.checks >= 4 + len(run.rounds)
    for each in run.rounds:
        if name.startswith("flux"):
            parts = [site for _, *pair in each.moves for site in pair]
            assert len(parts) == len(set(parts)), "one movement per site and round"
    assert len([m for m in run.messages if m.kind == "STATE"]) >= run.moves
