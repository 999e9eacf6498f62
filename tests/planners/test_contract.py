"""What every planner of the registry must hold to, tested alike."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.load import Statistics
from unskew.planners import PLANNERS, Memory, planner
from unskew.routing import RoutingTable

names = pytest.mark.parametrize("name", list(PLANNERS))


@st.composite
def situations(draw: st.DrawFn) -> tuple[Statistics, RoutingTable, int]:
    """Integer costs (ties), zeros, keys away from home, an untracked rest, growing and shrinking."""
    count = draw(st.integers(0, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    hashes = rng.choice(np.arange(-200, 200), count, replace=False)
    before, after = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    table = RoutingTable.initial(before, slots=16)
    away = rng.choice(np.arange(-200, 200), 8, replace=False)
    table = table.with_explicit(away, rng.integers(0, before, 8))
    cost = rng.integers(0, draw(st.sampled_from([1, 4, 1000])) + 1, count).astype(float)
    slot_cost = rng.integers(0, 5, 16) * draw(st.sampled_from([0.0, 1.0]))
    statistics = Statistics(hashes, cost, cost, rng.integers(0, 50, count), slot_cost, slot_cost, slot_cost)
    return statistics, table, after


@names
@settings(max_examples=60)
@given(situations())
def test_a_plan_is_complete_and_honest(name: str, situation: tuple[Statistics, RoutingTable, int]) -> None:
    statistics, table, channels = situation
    plan = planner(name).plan(statistics, table, channels=channels)
    new, figures = plan.table, plan.report
    assert new.channels == channels
    assert new.version == table.version + 1
    owner = new.lookup(statistics.hashes)
    assert np.all((owner >= 0) & (owner < channels)), "every key has one owner"
    assert np.array_equal(new.home(new.explicit_hashes) != new.explicit_channels, np.ones(len(new.explicit_hashes))), (
        "only keys away from home stand in the table"
    )
    loads = np.bincount(owner, statistics.cost, channels) + np.bincount(new.slots, statistics.slot_cost, channels)
    assert loads.sum() == pytest.approx(statistics.total_cost), "loads are conserved"
    mean = loads.mean()
    assert figures.overload_after == pytest.approx(loads.max() / mean - 1 if mean else 0)
    assert figures.table_size == len(new.explicit_hashes)
    moved = owner != table.lookup(statistics.hashes)
    slots_moved = statistics.slot_state[table.slots != new.slots].sum()
    assert figures.migration_cost == pytest.approx(statistics.state[moved].sum() + slots_moved)
    assert figures.lower_bound <= loads.max() * (1 + 1e-12)


@names
@settings(max_examples=25)
@given(situations())
def test_moves_are_the_difference_of_the_tables(name: str, situation: tuple[Statistics, RoutingTable, int]) -> None:
    statistics, table, channels = situation
    plan = planner(name).plan(statistics, table, channels=channels)
    everywhere = np.arange(-200, 200)
    place = dict(zip(everywhere.tolist(), table.lookup(everywhere).tolist(), strict=True))
    listed = {*table.explicit_hashes.tolist(), *plan.table.explicit_hashes.tolist()}
    for move in plan.moves:
        keys = [move.id] if move.kind == "key" else [k for k in place if k % 16 == move.id and k not in listed]
        for key in keys:
            assert place[key] == move.source
            place[key] = move.target
    assert list(place.values()) == plan.table.lookup(everywhere).tolist()


@names
@settings(max_examples=15)
@given(situations())
def test_the_same_input_gives_the_same_plan(name: str, situation: tuple[Statistics, RoutingTable, int]) -> None:
    statistics, table, channels = situation
    first, second = (planner(name).plan(statistics, table, channels=channels) for _ in range(2))
    assert first.table == second.table
    assert dataclasses.replace(first.report, seconds=0) == dataclasses.replace(second.report, seconds=0)
    assert first.memory == second.memory


@names
def test_memory_survives_a_restart(name: str) -> None:
    rng = np.random.default_rng(3)
    hashes = np.arange(50) * 7
    restarted = remembered = None
    table = table_restarted = RoutingTable.initial(4, slots=16)
    for _ in range(5):
        statistics = Statistics.of_keys(hashes, rng.zipf(1.5, 50).clip(0, 1000), rng.integers(1, 9, 50))
        plan = planner(name).plan(statistics, table, memory=remembered)
        again = planner(name).plan(statistics, table_restarted, memory=restarted)
        assert plan.table == again.table
        table, remembered = plan.table, plan.memory
        table_restarted, restarted = again.table, Memory.from_bytes(again.memory.to_bytes())


@names
def test_one_channel_needs_no_table(name: str) -> None:
    plan = planner(name).plan(Statistics.of_keys([1, 2], [5.0, 1.0]), RoutingTable.initial(1))
    assert len(plan.table.explicit_hashes) == len(plan.moves) == 0
    assert plan.report.overload_after == 0


@names
@pytest.mark.parametrize("cost", [[], [0.0, 0.0, 0.0], [1.0], [2.0, 2.0, 2.0, 2.0], [1e-300, 1e300]])
def test_odd_loads_are_planned(name: str, cost: list[float]) -> None:
    plan = planner(name).plan(Statistics.of_keys(np.arange(len(cost)), cost), RoutingTable.initial(3))
    assert plan.report.overload_after >= 0


@names
def test_a_key_heavier_than_all_others_is_named(name: str) -> None:
    cost = np.ones(100)
    cost[17] = 500
    plan = planner(name).plan(Statistics.of_keys(np.arange(100), cost), RoutingTable.initial(4))
    assert plan.report.unsplittable == (17,)
    assert plan.report.lower_bound == 500


@names
def test_every_planner_introduces_itself(name: str) -> None:
    cls = PLANNERS[name]
    assert cls.name == name
    assert len(cls.summary.splitlines()) == 1
    assert hash(planner(name)) == hash(planner(name))


def test_an_unknown_planner_or_parameter_is_answered_with_a_hint() -> None:
    with pytest.raises(ArgumentError, match="did you mean 'consistent'"):
        planner("consitent")
    with pytest.raises(ArgumentError, match=r"has no parameter 'tolerence'. Hint: it takes tolerance"):
        planner("keep", tolerence=0.1)
