from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.planners import Memory, Problem
from unskew.planners.fang import MinMig, MinTable, Mixed, MixedBf, Simple
from unskew.planners.fang.window import remember, windowed_state


def interval(rng: np.random.Generator) -> Problem:
    """Draw an interval in which some keys are silent."""
    hashes = np.sort(rng.choice(40, int(rng.integers(5, 30)), replace=False))
    return Problem.of_keys(
        rng.integers(1, 20, len(hashes)),
        channels=3,
        current=hashes % 3,
        home=hashes % 2,
        state=rng.integers(0, 9, len(hashes)),
        hashes=hashes,
    )


@pytest.mark.parametrize("window", [1, 2, 5])
def test_state_is_added_up_over_the_window_and_forgotten_after(window):
    rng = np.random.default_rng(3)
    memory, past = Memory(), []
    for _ in range(12):
        problem = interval(rng)
        past.append(dict(zip(problem.hashes.tolist(), problem.state.tolist(), strict=True)))
        memory = remember(problem, memory, window)
        expected = [sum(p.get(h, 0) for p in past[-window:]) for h in problem.hashes.tolist()]
        assert windowed_state(problem, memory).tolist() == expected
        assert len(memory.tables) <= window


def test_order_of_keys_does_not_matter():
    problem = Problem.of_keys([1, 2, 3], channels=2, current=[0, 0, 0], home=[0, 0, 0], hashes=[9, -4, 5])
    memory = remember(problem, remember(problem, Memory(), 2), 2)
    assert windowed_state(problem, memory).tolist() == [2, 4, 6]


@pytest.mark.parametrize("cls", [MinMig, MinTable, Mixed, MixedBf])
def test_a_restart_changes_nothing(cls):
    rng = np.random.default_rng(4)
    planner = cls(tolerance=0.05, window=3)
    kept = restarted = Memory()
    for _ in range(8):
        problem = interval(rng)
        a, b = planner.assign(problem, kept), planner.assign(problem, Memory.from_bytes(restarted.to_bytes()))
        assert a.owner.tolist() == b.owner.tolist()
        assert planner.describe(problem, a).migration_cost == planner.describe(problem, b).migration_cost
        kept, restarted = a.memory, b.memory


def test_planners_rank_by_the_state_of_the_window():
    # the first key has little state now but had much before; with a window it is the other one that moves
    quiet = Problem.of_keys([5, 5, 1], channels=2, current=[0, 0, 1], home=[0, 0, 1], state=[90, 1, 1])
    now = Problem.of_keys([5, 5, 1], channels=2, current=[0, 0, 1], home=[0, 0, 1], state=[1, 2, 1])
    assert MinMig(tolerance=0.2).assign(now, Memory()).owner.tolist() == [1, 0, 1]
    planner = MinMig(tolerance=0.2, window=2)
    memory = planner.assign(quiet, Memory()).memory
    answer = planner.assign(now, memory)
    assert answer.owner.tolist() == [0, 1, 1]
    assert planner.describe(now, answer).migration_cost == 3


def test_assign_does_not_change_its_arguments():
    problem = interval(np.random.default_rng(5))
    memory = remember(problem, Memory(), 2)
    before = memory.to_bytes(), problem.state.copy(), problem.current.copy()
    Mixed(tolerance=0, window=2, table_cap=1).assign(problem, memory)
    assert memory.to_bytes() == before[0]
    assert np.array_equal(problem.state, before[1])
    assert np.array_equal(problem.current, before[2])


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (Mixed, {"tolerance": -0.1}),
        (Mixed, {"tolerance": float("nan")}),
        (Mixed, {"window": 0}),
        (Mixed, {"table_cap": -1}),
        (Mixed, {"migration_exponent": -1}),
        (Mixed, {"fallback": ("lpt",)}),
        (MixedBf, {"max_trials": 1}),
        (Simple, {"tolerance": -1}),
    ],
)
def test_bad_parameters_are_refused(cls, parameters):
    with pytest.raises(ArgumentError):
        cls(**parameters)
