"""Rounds over several intervals, and plans on slots."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import StatisticsError
from unskew.load import ChannelUse, Statistics
from unskew.planners import Memory, Problem
from unskew.planners.flux import FluxLoad
from unskew.routing import RoutingTable


def interval(tuples, current, move_seconds=0.0, idle=None):
    use = ChannelUse(2.0, idle_seconds=idle, move_seconds=move_seconds)
    return Problem.of_keys(tuples, channels=2, current=current, home=current, use=use)


def test_a_round_collects_for_as_long_as_the_last_moves_took_and_then_halves():
    planner, memory, current, lengths = FluxLoad(), Memory(), [0, 0, 0, 0], []
    waits = 0
    for move_seconds in (0.0, 7.0, 7.0, 7.0, 7.0, 3.0, 3.0, 0.0, 0.0, 0.0):
        answer = planner.assign(interval([1, 1, 1, 1], current, move_seconds), memory)
        memory, waits = Memory.from_bytes(answer.memory.to_bytes()), waits + 1
        if "collecting" not in answer.notes:
            lengths.append((waits, int((answer.owner != current).sum())))
            current, waits = answer.owner.tolist(), 0
    # first round after one interval; 7 s are 4 intervals of 2 s; 3 s are 2, but nothing moves then: 1
    assert lengths == [(1, 1), (4, 1), (2, 0), (1, 0), (1, 0), (1, 0)]


def test_intervals_are_added_up():
    planner, memory = FluxLoad(shortest_collection=2), Memory()
    first = planner.assign(interval([9, 1, 10], [0, 0, 1], idle=[0.0, 0.0]), memory)
    assert first.notes == ("collecting",)
    assert first.owner.tolist() == [0, 0, 1]
    # alone, the second interval would move its heavier slot, and the first nothing: nobody was idle
    second = planner.assign(interval([1, 9, 12], [0, 0, 1], idle=[0.0, 1.8]), first.memory)
    assert second.owner.tolist() == [1, 0, 1], "ten rows each, and the first of equals goes"


def test_a_collection_that_speaks_of_other_channels_starts_anew():
    planner = FluxLoad(shortest_collection=2)
    memory = planner.assign(interval([9, 1], [0, 0], idle=[0.0, 1.0]), Memory()).memory
    grown = Problem.of_keys(
        [9, 1], channels=3, current=[0, 0], home=[0, 0], use=ChannelUse(2.0, idle_seconds=[0, 1, 1])
    )
    assert planner.assign(grown, memory).notes == ("collecting",)


def test_a_plan_moves_slots_with_all_their_keys_and_leaves_no_entries():
    table = RoutingTable(2, [0, 0, 0, 1], explicit_hashes=[5], explicit_channels=[1])
    statistics = Statistics([4, 5, 6], [8, 1, 1], [8, 1, 1], [8, 1, 1], np.ones(4), np.ones(4), np.ones(4))
    plan = FluxLoad().plan(statistics, table)
    # with key 5 at home, slots 0, 1 and 2 hold 9, 2 and 2 rows and slot 3 holds one: the first would overload channel 1
    assert plan.table.slots.tolist() == [1, 0, 0, 1]
    assert len(plan.table.explicit_hashes) == plan.report.table_size == 0
    assert sorted((m.kind, m.id, m.source, m.target) for m in plan.moves) == [("key", 5, 1, 0), ("slot", 0, 0, 1)]


def test_slots_of_a_channel_that_leaves_go_home_before_the_round():
    table = RoutingTable.initial(3, slots=30)
    plan = FluxLoad().plan(Statistics.of_keys(np.arange(30), np.ones(30)), table, channels=2)
    assert set(plan.table.slots.tolist()) == {0, 1}
    assert plan.report.overload_after == pytest.approx(0.0)


def test_impossible_measures_are_refused():
    with pytest.raises(StatisticsError, match="longer than 0"):
        ChannelUse(0.0)
    with pytest.raises(StatisticsError, match="idle_seconds"):
        ChannelUse(1.0, idle_seconds=[-1.0])
    with pytest.raises(StatisticsError, match="cannot take negative time"):
        ChannelUse(1.0, move_seconds=-1.0)
