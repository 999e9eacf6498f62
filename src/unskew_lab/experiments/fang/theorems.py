"""The paper's theorems put to the test on random small problems."""

from __future__ import annotations

import numpy as np

from unskew.planners import Memory, Planner, Problem
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, Simple
from unskew.planners.fang.hlhe import discretise
from unskew_lab.experiments.fang.grid import Trial

EVERYTHING = ("llfd", "mintable", "simple")


def count_violations(trial: Trial) -> dict[str, list[float]]:
    """Try as many problems as the trial has intervals; returns how often each statement failed, in a list of one."""
    rng = np.random.default_rng(trial.seed)
    failed = dict.fromkeys(
        ("theorem_1", "theorem_2", "theorem_2_fallback", "theorem_4", "theorem_4_fallback", "table", "migration"), 0
    )
    for _ in range(trial.intervals):
        tolerance = float(rng.choice([0.0, 0.02, 0.08]))
        failed["theorem_1"] += _exceeds_a_third(perfect_problem(rng), tolerance)
        problem = random_problem(rng)
        cap, slack = len(problem.cost) // 4, 1e-9
        mixed = Mixed(tolerance=tolerance, table_cap=cap)
        allowed = max(tolerance, _overload(Llfd(tolerance=tolerance), problem)) + slack
        failed["theorem_2"] += _overload(mixed, problem) > allowed
        rescued = Mixed(tolerance=tolerance, table_cap=cap, fallback=EVERYTHING)
        failed["theorem_2_fallback"] += _overload(rescued, problem) > allowed
        simple = max(0.0, _overload(Simple(tolerance=0), problem))
        failed["theorem_4"] += _overload(Mixed(tolerance=simple), problem) > simple + slack
        failed["theorem_4_fallback"] += (
            _overload(Mixed(tolerance=simple, fallback=EVERYTHING), problem) > simple + slack
        )
        failed["table"] += _report(mixed, problem)[0] < _report(MinTable(tolerance=tolerance), problem)[0]
        failed["migration"] += _report(mixed, problem)[1] < _report(MinMig(tolerance=tolerance), problem)[1]
    counts = np.floor(rng.zipf(1.85, 100_000).clip(max=100_000))
    return {
        "instances": [float(trial.intervals)],
        **{name: [float(count)] for name, count in failed.items()},
        "deviation_zipf": [float(abs(1 - discretise(counts, degree=3).sum() / counts.sum()))],
        "deviation_equal": [float(abs(1 - discretise(np.full(1000, 180.0), degree=8, unit=1.0).sum() / 180_000))],
    }


def random_problem(rng: np.random.Generator) -> Problem:
    """Draw a small problem with whole costs, so that ties and exact fits are common."""
    channels = int(rng.integers(2, 7))
    keys = int(rng.integers(2 * channels, 5 * channels))
    owners = rng.integers(0, channels, (2, keys))
    return Problem.of_keys(
        rng.integers(1, 31, keys), channels=channels, current=owners[0], home=owners[1], state=rng.integers(1, 31, keys)
    )


def perfect_problem(rng: np.random.Generator) -> Problem:
    """Draw a problem that has a perfectly even assignment, with every key lighter than the mean."""
    channels, mean = int(rng.integers(2, 7)), int(rng.integers(6, 60))
    cost: list[int] = []
    for _ in range(channels):
        cuts = np.sort(rng.choice(np.arange(1, mean), int(rng.integers(1, 5)), replace=False))
        cost.extend(np.diff([0, *cuts, mean]).tolist())
    owners = rng.integers(0, channels, (2, len(cost)))
    return Problem.of_keys(
        rng.permutation(cost),
        channels=channels,
        current=owners[0],
        home=owners[1],
        state=rng.integers(1, 31, len(cost)),
    )


def _exceeds_a_third(problem: Problem, tolerance: float) -> bool:
    bound = max(tolerance, (1 - 1 / problem.channels) / 3) + 1e-9
    planners = (Llfd, MinTable, MinMig, Mixed, Simple)
    return any(_overload(cls(tolerance=tolerance), problem) > bound for cls in planners)


def _overload(planner: Planner, problem: Problem) -> float:
    return float(problem.loads(planner.assign(problem, Memory()).owner).max() / problem.mean_load - 1)


def _report(planner: Planner, problem: Problem) -> tuple[int, float]:
    report = planner.describe(problem, planner.assign(problem, Memory()))
    return report.table_size, report.migration_cost
