import numpy as np

from unskew.load import Statistics
from unskew.planners import planner
from unskew.routing import RoutingTable

KEYS = Statistics.of_keys(np.arange(1000), np.ones(1000))


def test_plain_hashing_moves_nearly_everything_and_consistent_hashing_a_fair_share() -> None:
    table = planner("hash").plan(KEYS, RoutingTable.initial(9)).table
    plain = planner("hash").plan(KEYS, table, channels=10).report
    consistent = planner("consistent").plan(KEYS, RoutingTable.initial(9), channels=10).report
    assert plain.migration_share > 0.8
    assert 0.06 < consistent.migration_share < 0.14
    assert plain.table_size == consistent.table_size == 0


def test_keep_changes_nothing() -> None:
    table = RoutingTable.initial(4).with_explicit([3, 5], [0, 1])
    plan = planner("keep").plan(KEYS, table)
    assert np.array_equal(plan.table.lookup(KEYS.hashes), table.lookup(KEYS.hashes))
    assert plan.report.migration_cost == len(plan.moves) == 0


def test_consistent_drops_the_table() -> None:
    table = RoutingTable.initial(4).with_explicit([3], [1 - RoutingTable.initial(4).home([3])[0] % 2])
    assert len(planner("consistent").plan(KEYS, table).table.explicit_hashes) == 0
