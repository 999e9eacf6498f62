"""Throughputs that follow from arithmetic, the fluid engine as a second opinion, and invariants that can fail."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import ArgumentError, SimulationError
from unskew.planners import planner
from unskew_lab.simulation import Cluster, Setup, Slowdown, simulate
from unskew_lab.simulation.dataplane import _kernel_run
from unskew_lab.simulation.fluid import Fluid
from unskew_lab.simulation.start import alias_tables

SMALL = {"nodes": 8, "partitions_per_node": 16, "pool_tuples": 256}


def relative(run, first=0):
    """Return the throughput over that of a cluster whose every CPU does nothing but process and produce."""
    return run.mean_throughput(first) * 45.5e-6 / run.setup.nodes


def test_an_undisturbed_cluster_processes_as_fast_as_its_cpus():
    run = simulate(Setup(**SMALL, seconds=3))
    assert relative(run) == pytest.approx(1.0, abs=0.01)
    assert run.latency_seconds == pytest.approx(45e-6)
    assert run.busy_share.mean() > 0.99


@pytest.mark.parametrize("routing", ["flux", "exchange"])
def test_one_slow_site_holds_all_others_up(routing):
    run = simulate(Setup(**SMALL, routing=routing, seconds=8, slowdowns=(Slowdown(3, 0.0),)))
    assert relative(run, 5) == pytest.approx(0.43, abs=0.02)
    assert run.busy_share[-1, 3] == pytest.approx(1.0, abs=0.01)
    assert np.delete(run.busy_share[-1], 3).max() < 0.6, "the others wait for input"
    assert run.blocked_share[-1] > 0.05


def test_river_sends_less_to_the_slow_site():
    run = simulate(Setup(**SMALL, routing="river", seconds=5, slowdowns=(Slowdown(3, 0.0),)))
    assert relative(run, 2) == pytest.approx((7 + 0.43) / 8, abs=0.02)


def test_a_pool_hides_a_short_slowdown_and_a_connection_does_not():
    load = (Slowdown(3, 1.0, 1.2),)
    flux, exchange = (
        simulate(Setup(**{**SMALL, "pool_tuples": pool}, routing=routing, seconds=2, slowdowns=load))
        for routing, pool in (("flux", 4096), ("exchange", 0))
    )
    assert relative(flux) > 0.985
    assert relative(exchange) < 0.96


def test_a_planner_wins_back_what_the_slow_site_cost():
    static, balanced = (
        simulate(
            Setup(**SMALL, seconds=10, slowdowns=(Slowdown(3, 0.0),), planner=who, shortest_collection_seconds=0.1)
        )
        for who in (None, planner("flux-load"))
    )
    assert relative(static, 6) < 0.46
    assert relative(balanced, 6) > 0.75
    assert (balanced.table.slots == 3).sum() < 16 == (static.table.slots == 3).sum()


def test_a_run_depends_on_its_seed_alone():
    setup = Setup(**SMALL, seconds=2, data="self-similar", planner=planner("flux-load"))
    first, second, other = (simulate(s) for s in (setup, setup, Setup(**{**vars(setup), "seed": 1})))
    assert np.array_equal(first.throughput, second.throughput)
    assert first.rounds == second.rounds
    assert not np.array_equal(first.throughput, other.throughput)


@pytest.mark.parametrize("who", [None, planner("flux-load")])
def test_the_fluid_engine_agrees(who):
    setup = Setup(
        nodes=16, partitions_per_node=32, pool_tuples=1024, seconds=8, slowdowns=(Slowdown(0, 1.0),), planner=who
    )
    assert simulate(setup).mean_throughput() == pytest.approx(float(Fluid(setup).run().mean()), rel=0.03)


def test_a_source_that_does_not_saturate_is_processed_as_it_comes():
    run = simulate(Setup(**SMALL, seconds=3, source_rate=5000.0))
    assert run.mean_throughput(1) == pytest.approx(8 * 5000, rel=0.01)
    assert run.busy_share[-1].mean() == pytest.approx(5000 * 45.5e-6, rel=0.1)


def test_partitions_are_drawn_by_their_weight():
    weights = np.array([0.5, 0.25, 0.125, 0.0625, 0.0625])
    cut, other = alias_tables(weights)
    share = cut / 5
    np.add.at(share, other, (1 - cut) / 5)
    assert share == pytest.approx(weights)


def damaged(damage):
    c = Cluster(Setup(**SMALL, seconds=1.0))
    c._advance(0.1)
    damage(c.data)
    return c


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: d.queue_number.__setitem__((0, 1, d.queue_start[0, 1]), 0), "lost, doubled or overtaken"),
        (lambda d: d.holder.__setitem__(3, 7), "where its partition's state is not"),
        (lambda d: d.processed.__setitem__(3, 0), "do not add up"),
        (lambda d: d.turn_first.__setitem__((0, 1), -1), "left waiting"),
        (lambda d: d.made.__setitem__((2, 5), d.made[2, 5] + 1), "do not add up|lost, doubled"),
    ],
)
def test_a_fault_does_not_stay_unseen(damage, message):
    c = damaged(damage)
    with pytest.raises(SimulationError, match=message):
        if "add up" not in message and "waiting" not in message:
            c._advance(0.2)
        c.checks.all()


def test_a_connection_with_room_beside_a_waiting_partition_is_found():
    c = damaged(lambda d: d.queue_length.__setitem__((1, 0), d.queue_length[1, 0] - 1))
    assert c.data.turn_first[0, 1] >= 0
    _kernel_run(c.data, c.costs, c.noise, False, c.ticks, c.ticks)
    with pytest.raises(SimulationError, match="left waiting"):
        c.checks.flow()


@pytest.mark.parametrize(
    "wrong",
    [{"nodes": 0}, {"routing": "flow"}, {"data": "odd"}, {"slowdowns": (Slowdown(32, 0.0),)}, {"tick_seconds": 0.0}],
)
def test_a_setup_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ArgumentError):
        Setup(**wrong)
    with pytest.raises(ArgumentError, match="only flux"):
        Setup(routing="exchange", planner=planner("keep"))
