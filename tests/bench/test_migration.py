from __future__ import annotations

import numpy as np

from unskew.load.statistics import Statistics
from unskew.planners.memory import Memory
from unskew.routing.table import RoutingTable
from unskew.runtime.planning import Controller
from unskew.runtime.settings import Planning, Splitting
from unskew_lab.bench import benchmarks
from unskew_lab.bench.migration import MOVED_SHARE, MoveAShare


def planned(share, table):
    hashes = np.random.default_rng(0).integers(-(2**63), 2**63, 5_000)
    load = Statistics.of_keys(hashes, np.ones(len(hashes)))
    planning = Planning(MoveAShare(share=share), min_gain=-np.inf)
    return Controller(planning, Splitting()).plan(load, table, Memory(), table.channels).table


def test_another_share_of_the_slots_moves_every_time_whatever_the_load():
    before = RoutingTable.initial(4, 4096)
    once = planned(MOVED_SHARE, before)
    twice = planned(MOVED_SHARE, once)
    moved = [np.flatnonzero(b.slots != a.slots) for a, b in ((before, once), (once, twice))]
    assert all(0.03 < len(slots) / 4096 < 0.07 for slots in moved)
    assert len(np.intersect1d(*moved)) < len(moved[0]) / 2
    assert not len(once.explicit_hashes)


def test_the_quiet_query_plans_alike_and_moves_nothing():
    before = RoutingTable.initial(4, 4096)
    assert (planned(0.0, before).slots == before.slots).all()
    assert "migration" in benchmarks
