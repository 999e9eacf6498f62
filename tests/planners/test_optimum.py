from __future__ import annotations

import itertools

import numpy as np
import pytest
from tests.planners import gaps
from tests.planners.optimum import lowest_imbalance, lowest_migration

from unskew.planners import Memory, Problem


def all_plans(problem: Problem):
    """Yield overload, migration cost and table size of every assignment there is."""
    for owner in itertools.product(range(problem.channels), repeat=len(problem.cost)):
        plan = np.array(owner)
        overload = problem.loads(plan).max() / problem.mean_load - 1
        moved, away = plan != problem.current, plan != problem.home
        yield overload, problem.state[moved].sum(), away.sum()


def tiny_problem(rng: np.random.Generator) -> Problem:
    channels, keys = int(rng.integers(1, 4)), int(rng.integers(1, 7))
    owners = rng.integers(0, channels, (2, keys))
    return Problem.of_keys(
        rng.integers(1, 20, keys), channels=channels, current=owners[0], home=owners[1], state=rng.integers(0, 9, keys)
    )


def test_the_programme_finds_what_trying_everything_finds():
    rng = np.random.default_rng(0)
    for _ in range(25):
        problem = tiny_problem(rng)
        plans = list(all_plans(problem))
        lowest = min(overload for overload, _, _ in plans)
        assert lowest_imbalance(problem) == pytest.approx(lowest, abs=1e-6)
        cap, imbalance = int(rng.integers(0, 5)), max(0.1, lowest)
        allowed = [state for over, state, size in plans if over <= imbalance + 1e-9 and size <= cap]
        assert lowest_migration(problem, imbalance, cap) == (pytest.approx(min(allowed)) if allowed else None)


def test_no_planner_beats_the_optimum():
    for problem in gaps.overloaded_problems(0.05, 5):
        lowest = lowest_imbalance(problem)
        for name in gaps.NAMES:
            chosen = gaps.configured(name, 0.05)
            report = chosen.describe(problem, chosen.assign(problem, Memory()))
            assert report.overload_after >= lowest - 1e-6
            least = lowest_migration(problem, report.overload_after, report.table_size)
            assert report.migration_cost >= least - 1e-6


@pytest.mark.slow
def test_the_page_of_gaps_is_current():
    assert gaps.page() == gaps.PAGE.read_text(), "write it anew with: python -m tests.planners.gaps"
