import numpy as np
import pytest

from unskew.errors import StatisticsError
from unskew.load import Statistics
from unskew.planners import Problem
from unskew.routing import RoutingTable


def test_the_whole_load_is_in_the_problem_listed_or_as_background() -> None:
    table = RoutingTable(2, [0, 1, 0, 1], [4, 5], [1, 0], {6: (0, 1)})
    statistics = Statistics(
        [4, 6, 7], [1, 2, 3], [10, 20, 30], [5, 6, 7], [1, 1, 1, 1], [1, 2, 3, 4], [8, 8, 8, 8], distinct_keys=99
    )
    after = table.resize(3)
    problem = Problem.of_statistics(statistics, table, after)
    assert problem.hashes.tolist() == [4, 5, 7], "a silent table entry is listed, a split key is not"
    assert problem.cost.tolist() == [10, 0, 30]
    assert problem.current.tolist() == [1, 0, 1]
    assert problem.home.tolist() == after.home([4, 5, 7]).tolist()
    assert problem.total_cost == statistics.total_cost == 70
    assert problem.background_cost_before.tolist() == [1 + 3 + 10, 2 + 4 + 10]
    assert problem.loads_before().tolist() == [14, 16 + 40]
    assert problem.background_state_moved == 8 * (table.slots != after.slots).sum()
    assert problem.distinct_keys == 99


def test_a_split_key_that_loses_a_candidate_weighs_on_those_that_stay() -> None:
    table = RoutingTable(3, [0, 1, 2], split={6: (2, 1)})
    problem = Problem.of_statistics(Statistics.of_keys([6], [8.0]), table, table.resize(2))
    assert problem.background_cost.tolist() == [0, 8]


def test_slots_that_do_not_fit_the_table_are_refused() -> None:
    statistics = Statistics([], [], [], [], np.ones(8), np.ones(8), np.ones(8))
    table = RoutingTable.initial(2, slots=16)
    with pytest.raises(StatisticsError, match="the statistics have 8 slots, the table has 16"):
        Problem.of_statistics(statistics, table, table)
