"""Load of the past: intervals add up over their batches, windows over intervals, and state is what was added."""

from __future__ import annotations

import numpy as np

from unskew.load.statistics import Statistics
from unskew.planners import planner
from unskew.routing.table import RoutingTable
from unskew.runtime.held import Held
from unskew.runtime.intervals import Intervals
from unskew.runtime.settings import Planning

TABLE = RoutingTable.initial(2, 16)


def batch(*loads: float, state: float = 10.0) -> Statistics:
    return Statistics(
        np.arange(1, len(loads) + 1),
        tuples=np.array(loads),
        cost=np.array(loads),
        state=np.full(len(loads), state),
        slot_tuples=np.zeros(16),
        slot_cost=np.zeros(16),
        slot_state=np.zeros(16),
    )


def test_an_interval_is_the_sum_of_its_batches_and_the_state_of_the_last() -> None:
    planning = Planning(planner("mixed"), "ahead", interval_batches=3)
    intervals = Intervals()
    for number, load in enumerate((batch(1, 2), batch(3, 4, state=20.0), batch(5, 6, state=30.0))):
        assert not intervals.due(planning, 0), number
        intervals = intervals.add(load, None, now_ms=0)
    assert intervals.due(planning, 0)
    load, left = intervals.close(planning, Held(np.zeros(16)), TABLE)
    assert (load.cost.tolist(), load.tuples.tolist(), load.state.tolist()) == ([9, 12], [9, 12], [30, 30])
    assert left.current is None and left.closed == ()


def test_time_counts_from_the_first_batch_of_an_interval() -> None:
    planning = Planning(planner("mixed"), "ahead", interval_ms=1000)
    intervals = Intervals().add(batch(1), None, now_ms=500)
    assert [intervals.due(planning, now) for now in (600, 1499, 1500)] == [False, False, True]


def test_a_window_adds_up_the_last_intervals() -> None:
    planning, intervals, seen = Planning(planner("mixed"), "ahead", window=2), Intervals(), []
    for load in (batch(1), batch(10), batch(100)):
        intervals = intervals.add(load, None, now_ms=0)
        total, intervals = intervals.close(planning, Held(np.zeros(16)), TABLE)
        seen.append(total.cost.tolist())
    assert seen == [[1], [11], [110]]


def test_planners_with_a_window_are_told_what_an_interval_added() -> None:
    planning, intervals, told = Planning(planner("mixed", window=3), "ahead"), Intervals(), []
    for state in (100.0, 130.0, 130.0):
        intervals = intervals.add(batch(1, state=state), None, now_ms=0)
        load, intervals = intervals.close(planning, Held(np.zeros(16), np.array([1]), np.array([state])), TABLE)
        told.append(load.state.tolist())
    assert told == [[100], [30], [0]]
