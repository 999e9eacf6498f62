from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from tests.planners.fang.reference import Plain

from unskew.errors import ArgumentError, FormatError
from unskew.planners import Memory, Problem
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Records
from unskew.planners.fang.hlhe import discretise
from unskew.planners.fang.order import priorities
from unskew.planners.fang.recovery import load_error, recover_owners


def rows(records: Records) -> list[tuple[float, ...]]:
    columns = (records.next, records.current, records.home, records.cost, records.state, records.copies)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_the_example_of_the_paper_puts_16_on_the_first_channel():
    records = Records.of_rows([(1, 2, 1, 4, 4, 2), (1, 2, 2, 8, 8, 1)])
    assert records.loads(3).tolist() == [0, 16, 0]


def test_equal_rows_merge_by_adding_copies():
    records = Records.of_rows([(0, 0, 1, 4, 4, 2), (0, 0, 0, 4, 4, 1), (0, 0, 1, 4, 4, 3)])
    assert rows(records) == [(0, 0, 0, 4, 4, 1), (0, 0, 1, 4, 4, 5)]


def test_keys_are_counted_and_found_again():
    cost, state = [8, 6, 3, 2, 2, 1, 1, 1, 1, 1], [1] * 10
    current, home = [0, 0, 0, 1, 1, 1, 1, 1, 0, 0], [0] * 9 + [1]
    records, record_of = Records.of_keys(cost, state, current, home, degree=2)
    rounded = [8, 4, 4, 2, 2, 2, 1, 1, 1, 1]
    expected = Counter(zip(current, current, home, rounded, state, strict=True))
    assert Counter({row[:5]: row[5] for row in rows(records)}) == expected
    for key in range(10):
        assert rows(records)[record_of[key]][1:5] == (current[key], home[key], rounded[key], state[key])


def test_reports_of_channels_add_up_to_the_whole():
    rng = np.random.default_rng(0)
    cost, state = rng.integers(1, 20, (2, 300))
    current, home = rng.integers(0, 4, (2, 300))
    reports = [
        Records.of_keys(
            cost[current == c], state[current == c], current[current == c], home[current == c], degree=0, cost_unit=1
        )[0]
        for c in range(4)
    ]
    whole, _ = Records.of_keys(cost, state, current, home, degree=0)
    assert rows(Records.merge(reports)) == rows(whole)


def test_arrow_round_trip():
    records = Records.of_rows([(0, 0, 1, 4, 2, 2), (1, 1, 1, 8, 8, 1)])
    table = records.to_arrow()
    assert table.column_names == ["next", "current", "home", "cost", "state", "copies"]
    assert rows(Records.from_arrow(table)) == rows(records)
    with pytest.raises(FormatError, match="home"):
        Records.from_arrow(table.drop_columns(["home"]))
    assert len(Records.from_arrow(pa.table(table.slice(0, 0)))) == 0


def random_records(rng: np.random.Generator) -> tuple[Records, int]:
    channels = int(rng.integers(1, 5))
    n = int(rng.integers(1, 10))
    owner = rng.integers(0, channels, n)
    return Records.of_rows(
        [
            (int(o), int(o), int(h), float(c), float(s), int(k))
            for o, h, c, s, k in zip(
                owner,
                np.where(rng.random(n) < 0.5, owner, rng.integers(0, channels, n)),
                rng.integers(0, 9, n),
                rng.integers(0, 5, n),
                rng.integers(1, 6, n),
                strict=True,
            )
        ]
    ), channels


def copies_one_by_one(records: Records, channels: int) -> tuple[Problem, np.ndarray]:
    of = np.repeat(np.arange(len(records)), records.copies)
    problem = Problem.of_keys(
        records.cost[of], channels=channels, current=records.current[of], home=records.home[of], state=records.state[of]
    )
    return problem, of


@pytest.mark.parametrize("cls", [Llfd, MinTable, MinMig, Mixed, MixedBf])
def test_records_are_planned_as_their_copies_one_by_one(cls):
    rng = np.random.default_rng(31)
    acted = 0
    for _ in range(500):
        records, channels = random_records(rng)
        tolerance, cap = float(rng.choice([0, 0.08, 0.3])), int(rng.integers(0, records.copies.sum() + 1))
        problem, of = copies_one_by_one(records, channels)
        plain = Plain(problem, tolerance)
        expected = {
            Llfd: plain.llfd,
            MinTable: lambda plain=plain, cap=cap: plain.min_table(cap),
            MinMig: plain.min_mig,
            Mixed: lambda plain=plain, cap=cap: plain.mixed(cap)[0],
            MixedBf: lambda plain=plain, cap=cap: plain.mixed_bf(cap),
        }[cls]()
        parameters = {"tolerance": tolerance} | ({"table_cap": cap} if "table_cap" in cls.__dataclass_fields__ else {})
        plan = cls(**parameters).plan_records(records, np.zeros(channels))
        spread = Counter()
        for source, row in zip(plan.source, rows(plan.records), strict=True):
            assert row[1:5] == rows(records)[source][1:5]
            spread[int(source), row[0]] += row[5]
        assert spread == Counter(zip(of.tolist(), expected.owner, strict=True))
        assert plan.forced == expected.forced
        assert plan.loads == pytest.approx(expected.loads)
        acted += bool(expected.popped)
    assert acted > 100


@pytest.mark.parametrize("cls", [Llfd, MinTable, MinMig, Mixed, MixedBf])
def test_without_rounding_and_ties_records_give_the_plan_of_the_keys(cls):
    rng = np.random.default_rng(32)
    compared = 0
    for _ in range(300):
        keys, channels = int(rng.integers(5, 30)), int(rng.integers(2, 5))
        cost = np.append(1, 2 + rng.choice(200, keys, replace=False))
        state = np.append(1, 2 + rng.choice(200, keys, replace=False))
        problem = Problem.of_keys(
            cost,
            channels=channels,
            current=rng.integers(0, channels, keys + 1),
            home=rng.integers(0, channels, keys + 1),
            state=state,
        )
        if len(np.unique(priorities(problem.cost, problem.state, 1.5))) <= keys:
            continue
        exact = cls(tolerance=0.05).assign(problem, Memory())
        compact = cls(tolerance=0.05, degree=0).assign(problem, Memory())
        assert compact.owner.tolist() == exact.owner.tolist()
        compared += 1
    assert compared > 100


def test_recovery_takes_keys_of_the_right_record_by_rank():
    # two keys look alike; one of them shall move, and it is the one with the higher rank
    records, record_of = Records.of_keys([4, 4, 4], [2, 2, 2], [0, 0, 0], [0, 0, 1], degree=0)
    planned = Records.of_rows([(1, 0, 0, 4, 2, 1), (0, 0, 0, 4, 2, 1), (0, 0, 1, 4, 2, 1)])
    source = records.find(planned)
    current = np.zeros(3, np.int32)
    assert recover_owners(planned, source, record_of, np.array([1.0, 2, 9]), current).tolist() == [0, 1, 0]
    assert recover_owners(planned, source, record_of, np.array([2.0, 2, 9]), current).tolist() == [1, 0, 0]


def test_find_tells_what_is_not_there():
    records = Records.of_rows([(0, 0, 1, 4, 2, 2), (1, 1, 1, 8, 8, 1)])
    other = Records.of_rows([(1, 1, 1, 8, 8, 1), (0, 0, 0, 4, 2, 1)])
    assert records.find(other).tolist() == [-1, 1]


def zipf_problem(keys=20_000, channels=10):
    rng = np.random.default_rng(1)
    cost = np.floor(rng.permutation(np.arange(1, keys + 1) ** -0.85) * 1e5) + 1
    home = rng.integers(0, channels, keys)
    return Problem.of_keys(cost, channels=channels, current=home, home=home)


@pytest.mark.parametrize("degree", [0, 3, 8])
def test_the_estimation_error_is_reported(degree):
    problem = zipf_problem()
    planner = Mixed(degree=degree)
    answer = planner.assign(problem, Memory())
    estimated, true = np.bincount(answer.owner, discretise(problem.cost, degree)), problem.loads(answer.owner)
    error = (np.abs(true - estimated) / true).max()
    assert answer.notes == (f"load_error={error:.4f}",)
    report = planner.describe(problem, answer)
    assert report.overload_before > 0.3
    assert 1 + report.overload_after <= 1.08 * (1 + error) / (1 - error)


def test_load_error_is_the_largest_relative_one():
    assert load_error(np.array([90.0, 5, 0]), np.array([100.0, 10, 0])) == 0.5


def test_records_of_a_channel_that_leaves_go_home():
    records = Records.of_rows([(0, 0, 0, 1, 1, 2), (2, 2, 1, 1, 1, 2)])
    plan = Mixed().plan_records(records, np.zeros(2))
    assert rows(plan.records) == [(0, 0, 0, 1, 1, 2), (1, 2, 1, 1, 1, 2)]


def test_background_counts():
    records = Records.of_rows([(0, 0, 0, 1, 1, 4)])
    plan = Llfd(tolerance=0).plan_records(records, np.array([2.0, 0]))
    assert plan.loads.tolist() == [3, 3]


def test_a_window_and_records_together():
    problem = zipf_problem(500, 4)
    planner = Mixed(degree=2, window=3, tolerance=0.02)
    first = planner.assign(problem, Memory())
    second = planner.assign(dataclasses.replace(problem, state=problem.state[::-1].copy()), first.memory)
    assert len(second.memory.tables) == 2


def test_a_negative_degree_is_refused():
    with pytest.raises(ArgumentError, match="degree"):
        Mixed(degree=-1)
