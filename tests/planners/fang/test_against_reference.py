"""Every planner gives the owners, forced keys and notes that the plain definition gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.planners.fang.reference import Plain, random_problem

from unskew.planners import Memory, Planner, Problem
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Simple

INSTANCES = 2000


def instances(seed: int):
    rng = np.random.default_rng(seed)
    for _ in range(INSTANCES):
        problem = random_problem(rng)
        yield (
            problem,
            {
                "tolerance": float(rng.choice([0, 0.02, 0.08, 0.3])),
                "migration_exponent": float(rng.choice([0.5, 1, 1.5, 2])),
                "table_cap": int(rng.integers(0, len(problem.cost) + 1)),
            },
        )


def check(cls: type[Planner], problem, parameters, expected):
    answer = cls(**parameters).assign(problem, Memory())
    assert answer.owner.tolist() == expected.owner, (problem, parameters)
    assert answer.forced == expected.forced
    return answer


def test_llfd():
    for problem, p in instances(1):
        check(Llfd, problem, {"tolerance": p["tolerance"]}, Plain(problem, p["tolerance"]).llfd())


def test_min_table():
    for problem, p in instances(2):
        expected = Plain(problem, p["tolerance"]).min_table(p["table_cap"])
        check(MinTable, problem, {name: p[name] for name in ("tolerance", "table_cap")}, expected)


def test_min_mig():
    for problem, p in instances(3):
        expected = Plain(problem, p["tolerance"], p["migration_exponent"]).min_mig()
        check(MinMig, problem, {name: p[name] for name in ("tolerance", "migration_exponent")}, expected)


def test_mixed():
    for problem, p in instances(4):
        expected, _, overflow = Plain(problem, p["tolerance"], p["migration_exponent"]).mixed(p["table_cap"])
        answer = check(Mixed, problem, p, expected)
        assert answer.notes == (("table_overflow",) if overflow else ())


def test_mixed_bf():
    for problem, p in instances(5):
        expected = Plain(problem, p["tolerance"], p["migration_exponent"]).mixed_bf(p["table_cap"])
        check(MixedBf, problem, p, expected)


def test_simple():
    for problem, p in instances(6):
        check(Simple, problem, {"tolerance": p["tolerance"]}, Plain(problem, p["tolerance"]).simple())


def test_the_instances_are_worth_checking():
    acting = forced = exchanged = overflowing = 0
    for problem, p in instances(4):
        plain = Plain(problem, p["tolerance"])
        outcome, trials, overflow = plain.mixed(p["table_cap"])
        acting += bool(trials)
        forced += outcome.forced > 0
        exchanged += len(set(outcome.popped)) > 2
        overflowing += overflow
    assert min(acting, forced, exchanged, overflowing) > INSTANCES // 10


@pytest.mark.parametrize("cls", [Llfd, MinTable, MinMig, Mixed])
def test_many_keys_with_equal_costs_look_deep_into_the_orders(cls):
    rng = np.random.default_rng(7)
    problem = Problem.of_keys(
        rng.integers(1, 4, 400),
        channels=3,
        current=np.zeros(400, int),
        home=rng.integers(0, 3, 400),
        state=rng.integers(0, 3, 400),
    )
    plain = Plain(problem, 0.0)
    expected = {
        Llfd: plain.llfd,
        MinTable: plain.min_table,
        MinMig: plain.min_mig,
        Mixed: lambda: plain.mixed(3000)[0],
    }[cls]()
    check(cls, problem, {"tolerance": 0.0}, expected)
