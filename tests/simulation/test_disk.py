"""Sites that spill: what lies on disk, what that costs, and that nothing is lost on the way."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.planners import planner
from unskew_lab.simulation import MemoryChange, Setup, simulate

# eight partitions of 1 MB at each of four sites; one of them drops to the memory of five
SPILL = Setup(
    nodes=4,
    partitions_per_node=8,
    state_tuples=12_500,
    memory_bytes=12e6,
    pool_tuples=256,
    seconds=8,
    memory_changes=(MemoryChange(1, 1.5, 5e6),),
)


def with_planner(name, **more):
    return Setup(**{**vars(SPILL), "planner": planner(name), **more})


def test_as_many_partitions_lie_on_disk_as_do_not_fit():
    run = simulate(SPILL)
    assert run.on_disk[0] == 0
    assert set(run.on_disk[2:].tolist()) <= {2.0, 3.0, 4.0}, "three, while one is read or written another number"
    assert run.mean_throughput(3) < 0.7 * run.throughput[0], "the site that spills holds all others up"
    assert run.latency_seconds[3:].mean() > 100 * 45e-6, "input waits until its partition comes back"


@pytest.mark.parametrize("name", ["flux-memory", "flux-hybrid"])
def test_moving_partitions_away_ends_the_spilling(name):
    run = simulate(with_planner(name))
    assert run.on_disk[-1] == 0
    assert (run.table.slots == 1).sum() <= 5
    fullest = np.bincount(run.table.slots).max()
    assert run.throughput[-1] > 0.95 * run.throughput[0] * 8 / fullest, "all that the fullest site holds up"
    assert run.latency_seconds[-1] == pytest.approx(45e-6, rel=0.01)


def test_flux_load_does_not_see_that_a_site_spills_for_lack_of_memory():
    """A site that waits for its disk looks busy, so partitions leave it; but nothing aims at what it lacks."""
    load, memory = (simulate(with_planner(name)) for name in ("flux-load", "flux-memory"))
    assert memory.mean_throughput() > load.mean_throughput()


def test_memory_that_comes_back_brings_the_partitions_back():
    changes = (MemoryChange(1, 1.5, 5e6), MemoryChange(1, 4.0, 12e6))
    run = simulate(Setup(**{**vars(SPILL), "memory_changes": changes}))
    assert run.on_disk[2] > 0
    assert run.on_disk[-1] == 0
    assert run.throughput[-1] > 0.98 * run.throughput[0]


def test_a_partition_on_disk_can_be_moved():
    """Every site short of memory: partitions on disk are shared out as well."""
    changes = tuple(MemoryChange(site, 1.0, 2e6 if site == 1 else 6e6) for site in range(4))
    run = simulate(with_planner("flux-memory", memory_changes=changes, seconds=15))
    assert run.moves > 0
    assert run.on_disk[-1] > 0
    assert (run.table.slots == 1).sum() < 8
