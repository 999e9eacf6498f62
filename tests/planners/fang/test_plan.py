"""Fang's planners on statistics and routing tables, as the runtime calls them."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.load.statistics import Statistics
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Simple
from unskew.routing import RoutingTable

ALL = [Llfd, MinTable, MinMig, Mixed, MixedBf, Simple]


def skewed(seed: int = 0, keys: int = 2000) -> Statistics:
    rng = np.random.default_rng(seed)
    hashes = rng.integers(-(2**63), 2**63 - 1, keys)
    return Statistics.of_keys(hashes, rng.permutation(1e6 * np.arange(1, keys + 1) ** -0.9), rng.integers(1, 50, keys))


@pytest.mark.parametrize("cls", ALL)
def test_the_new_table_does_what_the_report_says(cls):
    statistics, table = skewed(), RoutingTable.initial(6)
    plan = cls(tolerance=0.05).plan(statistics, table)
    owner = plan.table.lookup(statistics.hashes)
    loads = np.bincount(owner, statistics.cost, 6)
    assert loads.max() / loads.mean() - 1 == pytest.approx(plan.report.overload_after)
    assert plan.report.overload_after <= 0.05 < plan.report.overload_before
    moved = owner != table.lookup(statistics.hashes)
    assert plan.report.migration_cost == statistics.state[moved].sum()
    assert len(plan.moves) == plan.report.moved_keys == moved.sum()
    assert (
        len(plan.table.explicit_hashes) == plan.report.table_size == (owner != plan.table.home(statistics.hashes)).sum()
    )


@pytest.mark.parametrize("cls", [MinTable, Mixed, MixedBf])
def test_growing_drains_the_table_within_its_cap(cls):
    statistics = skewed(1)
    table = cls(tolerance=0.05, table_cap=200).plan(statistics, RoutingTable.initial(6)).table
    plan = cls(tolerance=0.05, table_cap=200).plan(statistics, table, channels=7)
    assert plan.table.channels == 7
    assert plan.report.overload_after <= 0.05
    assert plan.report.table_size <= 200


@pytest.mark.parametrize("cls", ALL)
def test_shrinking_leaves_no_key_behind(cls):
    statistics = skewed(2)
    table = Mixed(tolerance=0.05).plan(statistics, RoutingTable.initial(6)).table
    plan = cls(tolerance=0.3).plan(statistics, table, channels=4)
    assert plan.table.lookup(statistics.hashes).max() < 4
    assert plan.report.overload_after <= 0.3


def test_entries_of_keys_that_fell_silent_are_cleaned_first():
    statistics, table = skewed(3), RoutingTable.initial(4)
    silent = np.arange(50)
    table = table.with_explicit(silent, (table.home(silent) + 1) % 4)
    kept = Mixed(tolerance=1, table_cap=50).plan(statistics, table)
    assert len(kept.table.explicit_hashes) == 50
    drained = Mixed(tolerance=1, table_cap=20).plan(statistics, table)
    assert len(drained.table.explicit_hashes) == 20
    assert drained.report.migration_cost == 0


def test_untracked_load_counts():
    rng = np.random.default_rng(4)
    hashes = rng.integers(-(2**63), 2**63 - 1, 40)
    table = RoutingTable.initial(4)
    slots = np.where(table.slots == 0, 3.0, 1.0)
    statistics = Statistics(hashes, *(np.full(40, 200.0),) * 3, slot_tuples=slots, slot_cost=slots, slot_state=slots)
    plan = Llfd(tolerance=0.05).plan(statistics, table)
    loads = np.bincount(plan.table.lookup(hashes), statistics.cost, 4) + np.bincount(table.slots, slots, 4)
    assert loads.max() / loads.mean() - 1 == pytest.approx(plan.report.overload_after)
    assert plan.report.overload_after <= 0.05 < plan.report.overload_before
