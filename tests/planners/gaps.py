"""How far planners are from the exact optimum of small problems; ``python -m tests.planners.gaps`` writes the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.planners.optimum import lowest_imbalance, lowest_migration

from unskew.planners import PLANNERS, Memory, Planner, Problem, planner

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "planner-gaps.md"
TOLERANCES, TABLE_CAP, KEYS, INSTANCES = (0.08, 0.01), 6, 16, 100
NAMES = (
    "scan",
    "redist",
    "readj",
    "llfd",
    "mintable",
    "minmig",
    "mixed",
    "mixedbf",
    "simple",
    "smalops",
    "consistent",
    "keep",
)

INTRODUCTION = f"""# How far planners are from the optimum

Random problems with {KEYS} keys on 3 or 4 channels, {INSTANCES} for each tolerance: costs skewed by Zipf's law, state
independent of cost, a third of the keys away from home, overloaded at the start. For each, the exact optimum was found
by mixed integer programming (HiGHS): first the lowest imbalance that any plan with one owner per key can reach, then
the least state that must move to come within the tolerance (or within that lowest imbalance, where it is higher) with
at most {TABLE_CAP} entries in the table. Planners that take a cap get {TABLE_CAP}, all else is at its default.

- *imbalance gap*: how much further above the mean the fullest channel is than it had to be, that is, than the higher of
  the tolerance and the lowest possible imbalance; mean and worst over all problems.
- *reached*: share of the problems in which that gap is 0.
- *within cap*: share in which the table holds at most {TABLE_CAP} entries.
- *migration*: state moved over the least that must move, mean over the *n* problems in which the plan meets both
  conditions. Planners that know no cap meet it only by luck.
"""


@dataclass(frozen=True)
class Gap:
    """What one planner did."""

    name: str
    mean: float
    worst: float
    reached: float
    within_cap: float
    migration: float
    n: int


def overloaded_problems(tolerance: float, instances: int) -> list[Problem]:
    """Draw problems in which some channel is overloaded."""
    rng = np.random.default_rng(2024)
    drawn: list[Problem] = []
    while len(drawn) < instances:
        channels = int(rng.integers(3, 5))
        home = rng.integers(0, channels, KEYS)
        current = np.where(rng.random(KEYS) < 0.33, rng.integers(0, channels, KEYS), home)
        cost = rng.permutation(np.round(100 * np.arange(1, KEYS + 1) ** -0.85))
        problem = Problem.of_keys(
            cost, channels=channels, current=current, home=home, state=rng.integers(1, 100, KEYS), tuples=cost
        )
        if problem.loads(problem.current).max() > (1 + tolerance) * problem.mean_load:
            drawn.append(problem)
    return drawn


def measure(tolerance: float, instances: int = INSTANCES) -> list[Gap]:
    """Return the gaps of all planners over the problems that have a solution within the cap."""
    solved = []
    for problem in overloaded_problems(tolerance, instances):
        reachable = max(tolerance, lowest_imbalance(problem))
        least = lowest_migration(problem, reachable, TABLE_CAP)
        if least is not None:
            solved.append((problem, reachable, least))
    return [_gap(configured(name, tolerance), solved) for name in NAMES]


def configured(name: str, tolerance: float) -> Planner:
    """Return the planner, with the cap if it takes one."""
    takes_cap = "table_cap" in PLANNERS[name].__dataclass_fields__
    return planner(name, tolerance=tolerance, **({"table_cap": TABLE_CAP} if takes_cap else {}))


def _gap(chosen: Planner, solved: list[tuple[Problem, float, float]]) -> Gap:
    over, capped, ratios = [], [], []
    for problem, reachable, least in solved:
        report = chosen.describe(problem, chosen.assign(problem, Memory()))
        gap = report.overload_after - reachable
        over.append(gap if gap > 1e-6 else 0.0)
        capped.append(report.table_size <= TABLE_CAP)
        if over[-1] == 0 and capped[-1]:
            ratios.append(report.migration_cost / least)
    reached = float(np.mean(np.array(over) == 0))
    migration = float(np.mean(ratios)) if ratios else float("nan")
    return Gap(
        chosen.name, float(np.mean(over)), float(np.max(over)), reached, float(np.mean(capped)), migration, len(ratios)
    )


def page() -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for tolerance in TOLERANCES:
        parts.append(f"\n## Tolerance {tolerance}\n\n")
        parts.append("| planner | imbalance gap, mean | worst | reached | within cap | migration | n |\n")
        parts.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
        for g in measure(tolerance):
            ratio = f"{g.migration:.2f} x" if g.n else "-"
            shares = f"{g.reached:.0%} | {g.within_cap:.0%}"
            parts.append(f"| {g.name} | {g.mean:.3f} | {g.worst:.3f} | {shares} | {ratio} | {g.n} |\n")
    parts.append("\nA test keeps this page current; `python -m tests.planners.gaps` writes it anew.\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(PAGE.read_text())
