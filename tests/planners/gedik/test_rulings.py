"""Where the printed paper is wrong or silent, and what was ruled: each ruling on a case where it changes the result."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.load.resources import LINEAR, QUADRATIC
from unskew.planners import Memory, Problem, planner
from unskew.planners.gedik.items import combine_gaps, weigh_gap

FIG1 = [1, 1, 4, 2, 3, 5, 3, 3]
TWO_CHANNELS = [1, 1, 1, 0, 1, 0, 1, 0]
GROWTH = {"tuples": FIG1, "current": TWO_CHANNELS, "home": TWO_CHANNELS, "channels": 3}


def problem_of(case):
    return Problem.of_keys(case.tuples, channels=case.channels, current=case.current, home=case.home)


def readj(case, **parameters):
    return planner("readj", balance_ratio=case.alpha, **parameters).assign(problem_of(case), Memory()).owner.tolist()


def test_ruling_readj_continue_instead_of_break(slow):
    case = slow.Case(**GROWTH)
    printed = slow.owners(case, slow.readj(case, printed_break=True))
    assert readj(case) == slow.owners(case, slow.readj(case)) != printed


def test_ruling_readj_freezes_the_utility_of_each_iteration(slow):
    case = slow.Case(**GROWTH)
    printed = slow.owners(case, slow.readj(case, printed_stale_utility=True))
    assert readj(case) == slow.owners(case, slow.readj(case)) != printed


def test_ruling_readj_counts_forced_moves_on_shrink(slow):
    # only a utility that multiplies both penalties can tell: the forced moves raise the price of every further one
    rng = np.random.default_rng(4)
    for _ in range(400):
        keys = int(rng.integers(4, 8))
        current, home = rng.integers(0, 3, keys).tolist(), rng.integers(0, 2, keys).tolist()
        case = slow.Case(rng.integers(1, 9, keys).tolist(), current, home, 2, utility="atm")
        without = slow.owners(case, slow.readj(case, forced_moves_cost=False))
        assert readj(case, utility="atm") == slow.owners(case, slow.readj(case))
        if readj(case, utility="atm") != without:
            return
    pytest.fail("no instance on which the ruling matters")


def test_ruling_readj_accepts_steps_without_gain_in_utility():
    # swapping 10 and 8 narrows the gap from 3 to 1 and moves 18 of 35: penalty -4/(35/3), migration +36/35
    problem = Problem.of_keys([10, 9, 8, 8], channels=2, current=[0, 0, 1, 1], home=[0, 0, 1, 1])
    accepted, refused = (
        planner("readj", balance_ratio=2.0, require_positive_gain=only).assign(problem, Memory()).owner.tolist()
        for only in (False, True)
    )
    assert accepted == [1, 0, 0, 1]
    assert refused == [0, 0, 1, 1]


def test_ruling_readj_caps_the_moves_of_an_item(slow):
    rng = np.random.default_rng(8)
    differ = 0
    for _ in range(200):
        keys = int(rng.integers(4, 9))
        case = slow.Case(
            rng.integers(1, 30, keys).tolist(), rng.integers(0, 3, keys).tolist(), [0] * keys, 3, max_moves=1
        )
        capped, free = readj(case, max_moves_per_item=1), readj(case)
        assert capped == slow.owners(case, slow.readj(case))
        differ += capped != free
    assert differ > 0


def test_ruling_redist_starts_with_all_items_and_removes_what_it_places(slow):
    case = slow.Case(**GROWTH)
    order = []
    table = slow.redist(case, order)
    assert sorted(order) == sorted(case.items) == sorted(table)
    owner = planner("redist", balance_ratio=1.2).assign(problem_of(case), Memory()).owner
    assert owner.tolist() == slow.owners(case, table)


def test_ruling_exponent_counts_resources_that_are_not_constant():
    # with the printed cube root, two linear resources of penalty 8 would weigh 4 instead of 8 against migration
    assert combine_gaps(weigh_gap(8.0, 2), 2) == pytest.approx(8.0)
    assert planner("scan").items(*_hot(planner("scan"))).multiplicity.tolist() == [1]
    three = planner("scan", compute="quadratic")
    assert three.items(*_hot(three)).multiplicity.tolist() == [2, 1]


def _hot(scan):
    problem = Problem.of_keys(FIG1, channels=3, current=TWO_CHANNELS, home=TWO_CHANNELS)
    return problem, scan.hot_keys(problem)


def test_ruling_floor_keeps_other_resources_visible():
    # two equal items on two channels balance one resource perfectly; the other one must still be told apart
    perfect, better, worse = weigh_gap(0.0, 1), weigh_gap(0.5, 1), weigh_gap(2.0, 1)
    assert 0 < combine_gaps(perfect * better, 2) < combine_gaps(perfect * worse, 2)


def test_ruling_compute_load_is_the_plain_sum():
    plain, printed = planner("scan", compute="quadratic"), planner("scan", compute="quadratic", eq3_compute_load=True)
    share = np.array([0.5])
    assert plain.resources()[1](share) == 0.25
    assert printed.resources()[1](share) == 0.125
    assert planner("scan", compute="constant", eq3_compute_load=True).resources()[1] == LINEAR
    assert planner("scan", compute="linear", eq3_compute_load=True).resources()[1] == QUADRATIC


def test_ruling_compute_load_changes_tables():
    quadratic = {"memory": "constant", "compute": "quadratic", "network": "linear", "balance_ratio": 1.2}
    rng = np.random.default_rng(0)
    for _ in range(200):
        tuples = rng.integers(1, 12, 7)
        problem = Problem.of_keys(tuples, channels=3, current=rng.integers(0, 3, 7), home=[0] * 7)
        tables = [
            planner("readj", eq3_compute_load=eq3, **quadratic).assign(problem, Memory()).owner.tolist()
            for eq3 in (False, True)
        ]
        if tables[0] != tables[1]:
            return
    pytest.fail("no instance on which the ruling matters")


def test_ruling_placement_ties_go_home_first():
    # balance alone: three empty channels are equally good for the first item, so it stays where it is
    problem = Problem.of_keys([4, 4, 4], channels=3, current=[2, 1, 0], home=[0, 0, 0])
    for name in ("scan", "redist"):
        assert planner(name, utility="a").assign(problem, Memory()).owner.tolist() == [2, 1, 0]


def test_ruling_a_lost_home_costs_the_same_everywhere():
    # scan comes to the homeless key first and takes the lowest channel; redist prefers the key that may stay; readj
    # starts from where the hash puts the homeless key
    problem = Problem.of_keys([4, 4], channels=2, current=[2, 0], home=[1, 0], channels_before=3)
    owners = {name: planner(name).assign(problem, Memory()).owner.tolist() for name in ("scan", "redist", "readj")}
    assert owners == {"scan": [0, 1], "redist": [1, 0], "readj": [1, 0]}


def test_ruling_dropped_keys_count_in_the_migration_penalty():
    # key 2 lies away from home and is too light for an entry: it goes home, and its state is paid for
    problem = Problem.of_keys([60, 39, 1], channels=2, current=[0, 1, 1], home=[0, 1, 0])
    scan = planner("scan", balance_ratio=1.2, threshold_scale=0.9)
    items = scan.items(problem, scan.hot_keys(problem))
    assert items.share.tolist() == [0.6, 0.39]
    assert items.migration == pytest.approx(0.01)
    assert items.ideal_migration == pytest.approx(1.0 / 2)
    assert scan.assign(problem, Memory()).owner.tolist() == [0, 1, 0]


def test_ruling_keys_that_follow_the_ring_are_not_dropped():
    # growing from 2 to 3: key 2 goes to the newcomer with its slot, it never had an entry; key 3 loses one
    problem = Problem.of_keys([60, 38, 1, 1], channels=3, current=[0, 1, 1, 1], home=[0, 1, 2, 0], channels_before=2)
    scan = planner("scan", balance_ratio=1.2, threshold_scale=0.9)
    items = scan.items(problem, scan.hot_keys(problem))
    assert items.migration == pytest.approx(0.01)
    assert items.ideal_migration == pytest.approx(0.99 / 3)
    # shrinking from 3 to 2: key 2 sat on the channel that leaves
    problem = Problem.of_keys([60, 38, 2], channels=2, current=[0, 1, 2], home=[0, 1, 0], channels_before=3)
    assert scan.items(problem, scan.hot_keys(problem)).migration == 0.0


def test_ruling_silent_keys_weigh_nothing():
    problem = Problem.of_keys([6, 5, 0], channels=2, current=[0, 1, 1], home=[0, 1, 0])
    assert planner("readj").assign(problem, Memory()).owner.tolist() == [0, 1, 0]


def test_ruling_a_ratio_of_one_is_refused():
    with pytest.raises(ArgumentError, match=r"balance_ratio must be above 1, got 1.0.*1\.01"):
        planner("scan", balance_ratio=1.0)


def test_ruling_one_channel_has_an_empty_table():
    problem = Problem.of_keys([5, 1], channels=1, current=[1, 0], home=[0, 0], channels_before=2)
    for name in ("scan", "redist", "readj"):
        assert planner(name, balance_ratio=1.2).assign(problem, Memory()).owner.tolist() == [0, 0]
