"""Plans of a batch by its own load."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.load.statistics import Statistics, add_up
from unskew.planners import planner
from unskew.planners.memory import Memory
from unskew.routing.lookup import slot_of
from unskew.routing.table import RoutingTable
from unskew.runtime.planning import Controller
from unskew.runtime.settings import Planning, Splitting
from unskew.runtime.tasks import channel_loads, tasks_for

SLOTS = 4096


def counted(hashes: np.ndarray, rows: np.ndarray, listed: int) -> Statistics:
    """List the heaviest keys, and add up the rest by slot, as PREPARE does."""
    heavy = np.argsort(-rows, kind="stable")[:listed]
    light = np.setdiff1d(np.arange(len(rows)), heavy)
    by_slot = add_up(rows[light], slot_of(hashes[light], SLOTS), SLOTS)
    top = rows[heavy].astype(float)
    return Statistics(
        hashes[heavy], tuples=top, cost=top, state=top, slot_tuples=by_slot, slot_cost=by_slot, slot_state=by_slot
    )


def keys_of(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-(2**63), 2**63, count)


def loads_under(table: RoutingTable, hashes: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return add_up(rows, table.lookup(hashes), table.channels)


@pytest.mark.parametrize("name", ["mixed", "minmig", "llfd"])
@pytest.mark.parametrize("listed", [50, 2000])
def test_a_hot_key_in_a_sea_of_light_ones_gets_the_room_it_needs(name: str, listed: int) -> None:
    """Nine per cent of all rows in one key, the rest even: no key of the sea is listed, so slots have to give way."""
    hashes = keys_of(200_000)
    rows = np.ones(len(hashes), np.int64)
    rows[7] = 20_000
    load, table = counted(hashes, rows, listed), RoutingTable.initial(10, SLOTS)
    planned = Controller(Planning(planner(name, tolerance=0.02)), Splitting()).plan(load, table, Memory(), 10)
    before, after = loads_under(table, hashes, rows), loads_under(planned.table, hashes, rows)
    assert before.max() > 1.8 * before.mean()
    assert after.max() < 1.03 * after.mean()
    assert channel_loads(load, planned.table) == pytest.approx(after)


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2, 1.4])
def test_the_fullest_channel_is_as_full_as_it_must_be(exponent: float) -> None:
    """From the first batch on, and with other hot keys in every third one."""
    hashes = keys_of(10_000, seed=1)
    share = np.arange(1, len(hashes) + 1) ** -exponent
    rng, table = np.random.default_rng(2), RoutingTable.initial(10, SLOTS)
    controller = Controller(Planning(planner("mixed", tolerance=0.02)), Splitting())
    for batch in range(9):
        rows = np.bincount(rng.choice(len(hashes), 20_000, p=share / share.sum()), minlength=len(hashes))
        rows = np.roll(rows, 37 * (batch // 3))
        planned = controller.plan(counted(hashes, rows, 2000), table, Memory(), 10)
        loads = loads_under(planned.table, hashes, rows)
        assert loads.max() <= 1.03 * max(loads.mean(), rows.max()), batch
        table = planned.table


def test_an_even_load_moves_nothing() -> None:
    hashes = keys_of(100_000, seed=3)
    rows = np.full(len(hashes), 3)
    table = RoutingTable.initial(8, SLOTS)
    planned = Controller(Planning(planner("mixed", tolerance=0.05)), Splitting()).plan(
        counted(hashes, rows, 500), table, Memory(), 8
    )
    assert not len(planned.moves)


def test_tasks_are_as_many_as_the_work_is_worth() -> None:
    assert tasks_for(np.ones(8), seconds=0.01, cores=2).max() == 0
    assert tasks_for(np.ones(8), seconds=0.5, cores=2).tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
    assert tasks_for(np.ones(8), seconds=20.0, cores=2).tolist() == list(range(8))
    assert tasks_for(np.ones(8), seconds=None, cores=4).max() == 3


def test_a_plan_says_why_and_what_it_left_undone() -> None:
    hashes, table = keys_of(5000, seed=3), RoutingTable.initial(8, SLOTS)
    rows = np.ones(len(hashes), np.int64)
    rows[:4] = 400
    load = counted(hashes, rows, 200)

    def planned(before: RoutingTable, channels: int = 8, **planning):
        controller = Controller(Planning(planner("mixed", tolerance=0.02), **planning), Splitting())
        return controller.plan(load, before, Memory(), channels)

    made = planned(table)
    assert (made.reason, len(made.left)) == ("planned", 0)
    wanted = {(move.kind, move.id, move.source, move.target) for move in made.moves}
    assert planned(made.table).reason == "kept"
    declined = planned(table, min_gain=5.0)
    assert (declined.reason, len(declined.moves)) == ("not worth it", 0)
    assert {(move.kind, move.id, move.source, move.target) for move in declined.left} == wanted
    begun = planned(table, max_move_bytes=500)
    assert begun.reason == "planned"
    assert 0 < len(begun.moves) < len(wanted)
    assert len(begun.moves) + len(begun.left) == len(wanted)
    assert planned(table, channels=6).reason == "resized"
    assert planned(table).report.overload_bound == pytest.approx(0.0)
