"""Properties 1 to 6 of the specification, on random instances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planners.fang.reference import Plain, random_problem

from unskew.planners import Memory, Planner, Problem
from unskew.planners.base import owners_left
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Simple
from unskew.planners.fang.balance import Balancer
from unskew.planners.fang.order import Items

ALL = [Llfd, MinTable, MinMig, Mixed, MixedBf, Simple]


@st.composite
def problems(draw, max_keys=40):
    channels = draw(st.integers(1, 6))
    keys = draw(st.integers(0, max_keys))
    numbers = st.floats(0, 1e6, allow_subnormal=False) | st.integers(0, 5).map(float)
    column = st.lists(numbers, min_size=keys, max_size=keys)
    owners = st.lists(st.integers(0, channels - 1), min_size=keys, max_size=keys)
    return Problem.of_keys(draw(column), channels=channels, current=draw(owners), home=draw(owners), state=draw(column))


@settings(max_examples=150, deadline=None)
@given(problem=problems(), tolerance=st.sampled_from([0.0, 0.05, 0.3]), cap=st.integers(0, 40))
def test_every_key_has_one_owner_and_load_is_conserved(problem, tolerance, cap):
    for cls in ALL:
        parameters = {"tolerance": tolerance} | ({"table_cap": cap} if "table_cap" in cls.__dataclass_fields__ else {})
        answer = cls(**parameters).assign(problem, Memory())
        assert answer.owner.dtype == np.int32
        assert len(answer.owner) == len(problem.cost)
        assert ((answer.owner >= 0) & (answer.owner < problem.channels)).all()
        loads = problem.loads(answer.owner)
        assert loads.sum() == pytest.approx(problem.total_cost)
        if cls is not Simple and answer.forced == 0 and loads.sum() > 0:
            assert loads.max() <= (1 + tolerance) * loads.mean() * (1 + 1e-6)
        again = cls(**parameters).assign(problem, Memory())
        assert np.array_equal(again.owner, answer.owner)


@settings(max_examples=100, deadline=None)
@given(problem=problems(), cleaned=st.integers(0, 40), by_cost=st.booleans())
def test_a_trial_counts_what_it_does(problem, cleaned, by_cost):
    items = Items.of(problem.cost, problem.state, problem.current, problem.home)
    balancer = Balancer(items, np.zeros(problem.channels), 0.05, 1.5)
    if balancer.mean_load == 0:
        return
    cleaned = min(cleaned, balancer.table_size)
    trial = balancer.trial(cleaned, by_cost=by_cost)
    owner = balancer.owner(trial)
    assert len(set(trial.placements[0].tolist())) == trial.placements.shape[1]  # placed at most once
    assert trial.table_size == (owner != problem.home).sum()
    assert trial.migration_cost == pytest.approx(problem.state[owner != problem.current].sum(), abs=1e-6)
    assert trial.loads == pytest.approx(problem.loads(owner), abs=1e-6)
    balancer.trial(balancer.table_size - cleaned)
    repeated = balancer.trial(cleaned, by_cost=by_cost)  # a trial leaves no traces
    assert np.array_equal(repeated.placements, trial.placements)


def perfect_problem(rng: np.random.Generator) -> Problem:
    """Draw a problem that has a perfectly even assignment, with every key lighter than the mean."""
    channels, mean = int(rng.integers(2, 7)), int(rng.integers(6, 60))
    cost = []
    for _ in range(channels):
        cuts = np.sort(rng.choice(np.arange(1, mean), int(rng.integers(1, 5)), replace=False))
        cost.extend(np.diff([0, *cuts, mean]))
    keys = len(cost)
    return Problem.of_keys(
        rng.permutation(cost),
        channels=channels,
        current=rng.integers(0, channels, keys),
        home=rng.integers(0, channels, keys),
        state=rng.integers(0, 20, keys),
    )


@pytest.mark.parametrize("cls", ALL)
def test_theorem_1_and_lemma_3_bound_the_overload(cls):
    rng = np.random.default_rng(21)
    for _ in range(1000):
        problem = perfect_problem(rng)
        tolerance = float(rng.choice([0, 0.02, 0.08]))
        report = cls(tolerance=tolerance).describe(problem, cls(tolerance=tolerance).assign(problem, Memory()))
        assert report.overload_after <= max(tolerance, (1 - 1 / problem.channels) / 3) + 1e-9


def test_lemmas_1_and_2_on_the_premises():
    rng = np.random.default_rng(22)
    for _ in range(1000):
        problem = perfect_problem(rng)
        n, cost = problem.channels, np.sort(problem.cost)[::-1]
        assert len(cost) >= 2 * n
        for q in range(1, (len(cost) - 1) // n + 1):
            assert cost[q * n] <= problem.mean_load / (q + 1)


def over(problem: Problem, planner: Planner) -> float:
    return float(problem.loads(planner.assign(problem, Memory()).owner).max())


def test_fallback_guarantees_theorems_2_and_4():
    rng = np.random.default_rng(23)
    worse = 0
    for _ in range(300):
        problem = random_problem(rng)
        if problem.total_cost == 0:
            continue
        cap = len(problem.cost) // 4
        fallback = Mixed(tolerance=0.02, table_cap=cap, fallback=("llfd", "mintable", "simple"))
        floor = 1.02 * problem.mean_load
        others = [over(problem, cls(tolerance=0.02)) for cls in (Llfd, MinTable, Simple)]
        assert over(problem, fallback) <= max(floor, min(others)) + 1e-6 * problem.mean_load
        worse += over(problem, Mixed(tolerance=0.02, table_cap=cap)) > max(floor, min(others)) + 1e-6
    assert worse > 0


def test_plain_reference_pops_each_key_at_most_once():
    rng = np.random.default_rng(24)
    for _ in range(300):
        problem = random_problem(rng)
        popped = Plain(problem, 0.0).llfd().popped
        assert len(popped) == len(set(popped))


def test_owners_left_keeps_channels_that_stay():
    problem = Problem.of_keys([1, 1], channels=1, current=[0, 1], home=[0, 0])
    assert owners_left(problem).tolist() == [0, 0]
