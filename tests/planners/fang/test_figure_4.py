"""The running example of the paper's Fig. 4 for every variant: keys k1..k6 are 0..5, d1 and d2 are 0 and 1."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.planners import Memory, Problem
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Simple
from unskew.planners.fang.balance import Balancer
from unskew.planners.fang.order import Items

PROBLEM = Problem.of_keys([7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1])


def entries(owner):
    return {f"k{k + 1}": f"d{owner[k] + 1}" for k in np.flatnonzero(owner != PROBLEM.home)}


def moved(owner):
    return {f"k{k + 1}" for k in np.flatnonzero(owner != PROBLEM.current)}


def balancer(exponent=1.5):
    items = Items.of(PROBLEM.cost, PROBLEM.state, PROBLEM.current, PROBLEM.home)
    return Balancer(items, np.zeros(2), 0.0, exponent)


def test_the_start():
    assert entries(PROBLEM.current) == {"k3": "d2", "k5": "d1"}
    assert PROBLEM.loads(PROBLEM.current).tolist() == [16, 4]


@pytest.mark.parametrize(
    "planner",
    [
        Llfd(tolerance=0),
        MinMig(tolerance=0, migration_exponent=1),
        MinMig(tolerance=0, migration_exponent=1.5),
        MinMig(tolerance=0, migration_exponent=2),
        Mixed(tolerance=0, table_cap=4),
        Mixed(tolerance=0, table_cap=None),
        MixedBf(tolerance=0, table_cap=4),
    ],
    ids=repr,
)
def test_without_cleaning(planner):
    answer = planner.assign(PROBLEM, Memory())
    assert entries(answer.owner) == {"k1": "d2", "k3": "d2", "k4": "d1", "k5": "d1"}
    assert moved(answer.owner) == {"k1", "k4"}
    assert PROBLEM.loads(answer.owner).tolist() == [10, 10]
    assert planner.describe(PROBLEM, answer).migration_cost == 8
    assert (answer.forced, answer.notes) == (0, ())


def test_the_order_of_placements():
    item, channel, _ = balancer().trial(0, by_cost=True).placements
    assert [(f"k{k + 1}", f"d{d + 1}") for k, d in zip(item, channel, strict=True)] == [
        ("k1", "d2"),
        ("k3", "d2"),
        ("k4", "d1"),
    ]


@pytest.mark.parametrize(
    "planner",
    [
        MinTable(tolerance=0),
        Mixed(tolerance=0, table_cap=3),
        Mixed(tolerance=0, table_cap=2),
        MixedBf(tolerance=0, table_cap=3),
        MixedBf(tolerance=0, table_cap=2),
    ],
    ids=repr,
)
def test_with_cleaning(planner):
    answer = planner.assign(PROBLEM, Memory())
    assert entries(answer.owner) == {"k2": "d2", "k4": "d1"}
    assert moved(answer.owner) == {"k2", "k3", "k4", "k5"}
    assert PROBLEM.loads(answer.owner).tolist() == [10, 10]
    assert planner.describe(PROBLEM, answer).migration_cost == 12
    assert (answer.forced, answer.notes) == (0, ())


def test_the_order_of_placements_after_cleaning():
    item, channel, _ = balancer().trial(2, by_cost=True).placements
    assert [(f"k{k + 1}", f"d{d + 1}") for k, d in zip(item, channel, strict=True)] == [
        ("k1", "d1"),
        ("k2", "d2"),
        ("k4", "d1"),
    ]


@pytest.mark.parametrize(
    ("cap", "trials", "migration_cost"),
    [(4, [(0, 4)], 8), (3, [(0, 4), (1, 4), (2, 2)], 12), (2, [(0, 4), (2, 2)], 12), (1, [(0, 4), (2, 2)], 12)],
)
def test_trials_of_mixed(cap, trials, migration_cost):
    ran = Mixed(tolerance=0, table_cap=cap).trials(balancer())
    assert [(trial.cleaned, trial.table_size) for trial in ran] == trials
    assert ran[-1].migration_cost == migration_cost


def test_a_cap_of_one_overflows():
    answer = Mixed(tolerance=0, table_cap=1).assign(PROBLEM, Memory())
    assert answer.notes == ("table_overflow",)
    assert answer.owner.tolist() == MinTable(tolerance=0).assign(PROBLEM, Memory()).owner.tolist()


def test_a_hard_cap_sends_the_cheapest_home():
    answer = Mixed(tolerance=0, table_cap=1, hard_cap=True).assign(PROBLEM, Memory())
    assert entries(answer.owner) == {"k2": "d2"}
    assert PROBLEM.loads(answer.owner).tolist() == [9, 11]
    assert answer.notes == ("table_overflow", "hard_cap")


def test_simple():
    answer = Simple(tolerance=0).assign(PROBLEM, Memory())
    assert answer.owner.tolist() == [0, 1, 0, 0, 1, 1]
    assert PROBLEM.loads(answer.owner).tolist() == [10, 10]
