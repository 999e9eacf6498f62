"""SMALOPS: the specification's vectors, its invariant, and a plain reference over several windows."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planners.smalops.reference import Gateway

from unskew.errors import ArgumentError
from unskew.load import ChannelUse, Statistics
from unskew.load.metrics import balancing_error
from unskew.planners import Memory, Problem, planner
from unskew.planners.smalops import Smalops, worth_moving
from unskew.planners.smalops.best_fit import two_choices
from unskew.routing import RoutingTable

STAY = Smalops(first_place="stay")


def hot_problem(loads, owners, channels, **more):
    return Problem.of_keys(loads, channels=channels, current=owners, home=owners, **more)


def test_three_partitions():
    """p1 {a60 b25 c15 d10}, p2 {e30 f20}, p3 {g20}: d to p2, c to p3, b to p3; the error falls 100, 80, 50, 0."""
    loads, owners = [60, 25, 15, 10, 30, 20, 20], [0, 0, 0, 0, 1, 1, 2]
    problem = hot_problem(loads, owners, 3)
    assert balancing_error(problem.loads(problem.current)) == 100
    answer = STAY.assign(problem, Memory())
    assert answer.owner.tolist() == [0, 2, 2, 1, 1, 1, 2]
    assert balancing_error(problem.loads(answer.owner)) == 0
    for moved, error in (({3: 1}, 80), ({3: 1, 2: 2}, 50)):
        partly = np.array(owners)
        for key, channel in moved.items():
            partly[key] = channel
        assert balancing_error(problem.loads(partly)) == error
    known = STAY.assign(hot_problem([1] * 7, owners, 3), Memory()).memory
    assert Smalops().assign(problem, known).owner.tolist() == answer.owner.tolist(), "keys known as hot are not new"


def test_the_distance_rule_comes_before_the_best_fit():
    """Mean 100, source 110 with a stream of 16: 95 would fit better than 70, but the distance to it would grow."""
    problem = hot_problem([16, 94, 95, 70, 125], [0, 0, 1, 2, 3], 4)
    assert problem.mean_load == 100
    owner = STAY.assign(problem, Memory()).owner
    assert owner[0] == 2
    assert abs(16 + 95 - 100) < abs(16 + 70 - 100)


def test_equal_distance_counts_as_growth():
    assert STAY.assign(hot_problem([10, 20, 20], [0, 0, 1], 2), Memory()).owner.tolist() == [0, 0, 1]  # 30 and 20
    assert STAY.assign(hot_problem([9, 21, 20], [0, 0, 1], 2), Memory()).owner.tolist() == [1, 0, 1]


def test_small_streams_first_and_large_ones_stay():
    # 56 and 50: 1 and 2 make them equal, 3 need not move any more
    owner = STAY.assign(hot_problem([50, 3, 2, 1, 50], [0, 0, 0, 0, 1], 2), Memory()).owner
    assert owner.tolist() == [0, 0, 1, 1, 1]


def cases(rng):
    keys, channels = int(rng.integers(1, 14)), int(rng.integers(2, 6))
    shape = rng.choice([3, 20, 1000])
    by, threshold = [("share", 0.05), ("share", 0.001), ("abs", 5), ("cover", 0.6)][int(rng.integers(4))]
    return keys, channels, shape, by, threshold


def test_2000_random_instances_equal_the_reference():
    rng = np.random.default_rng(7)
    moves = falls = 0
    for instance in range(2000):
        keys, channels, shape, by, threshold = cases(rng)
        hashes = np.sort(rng.choice(np.arange(-500, 500), keys, replace=False)).astype(np.int64)
        drawn = two_choices(hashes, channels, instance)
        plain = Gateway(
            channels,
            by,
            threshold,
            cooling_windows=int(rng.integers(1, 4)),
            stay=bool(rng.integers(2)),
            include_cold=bool(rng.integers(2)),
            draws={k: tuple(pair) for k, pair in enumerate(drawn.tolist())},
        )
        ours = Smalops(
            hot_by=by,
            hot_threshold=threshold,
            cooling_windows=plain.cooling_windows,
            first_place="stay" if plain.stay else "two-choices",
            include_cold=plain.include_cold,
            seed=instance,
        )
        home = rng.integers(0, channels, keys)
        current = np.where(rng.random(keys) < 0.3, rng.integers(0, channels + 1, keys), home)
        memory = Memory()
        for _ in range(3):
            counts = rng.integers(0, shape, keys) * (rng.random(keys) < 0.8)
            cold = rng.integers(0, 10, channels)
            problem = dataclasses.replace(
                Problem.of_keys(counts, channels=channels, current=current, home=home, hashes=hashes),
                background_tuples=cold.astype(float),
                background_cost=cold.astype(float),
            )
            answer = ours.assign(problem, memory)
            owner, errors = plain.decide(
                dict(enumerate(counts.tolist())), current.tolist(), home.tolist(), cold.tolist()
            )
            assert answer.owner.tolist() == [owner[k] for k in range(keys)], f"instance {instance}"
            assert all(b <= a + 1e-9 for a, b in pairwise(errors))
            moves += int((answer.owner != current).sum())
            falls += len(errors) - 1
            current, memory = answer.owner.copy(), Memory.from_bytes(answer.memory.to_bytes())
    assert moves > 2000 and falls > 500


@settings(max_examples=200)
@given(st.integers(0, 2**32))
def test_the_balancing_error_never_rises(seed):
    rng = np.random.default_rng(seed)
    keys, channels = int(rng.integers(1, 60)), int(rng.integers(1, 12))
    owners = rng.integers(0, channels, keys)
    problem = hot_problem(rng.pareto(1.2, keys) + 0.1, owners, channels)
    answer = Smalops(first_place="stay", hot_by="listed").assign(problem, Memory())
    before, after = (balancing_error(problem.loads(o)) for o in (problem.current, answer.owner))
    assert after <= before * (1 + 1e-9)
    again = Smalops(hot_by="listed").assign(dataclasses.replace(problem, current=answer.owner), answer.memory)
    assert balancing_error(problem.loads(again.owner)) <= after * (1 + 1e-9)


def test_new_keys_take_the_lighter_of_two_channels_heaviest_first():
    """The draws are even, and of two channels the lighter is taken: close to even without any rebalancing."""
    drawn = two_choices(np.arange(60_000), 6, seed=1)
    assert (drawn[:, 0] != drawn[:, 1]).all()
    assert np.abs(np.bincount(drawn.ravel(), minlength=6) / 20_000 - 1).max() < 0.03
    problem = hot_problem(np.ones(600), np.zeros(600, int), 6)
    placed = Smalops(tolerance=10.0, hot_by="listed").assign(problem, Memory()).owner
    assert all(placed[k] in drawn_pair for k, drawn_pair in enumerate(two_choices(problem.hashes, 6, 0)))
    assert np.ptp(np.bincount(placed, minlength=6)) <= 20


def test_a_key_that_cools_down_goes_home_after_two_windows():
    ours = Smalops(hot_by="abs", hot_threshold=10, first_place="stay")
    table = RoutingTable.initial(2, slots=8)
    home = table.home([1, 2, 3, 4])
    keys = np.arange(1, 200)[table.home(np.arange(1, 200)) == home[0]][:4]
    plan = ours.plan(Statistics.of_keys(keys, [40.0, 20.0, 15.0, 12.0]), table)
    away = plan.table.explicit_hashes
    assert len(away)
    cold = Statistics.of_keys(keys, [1.0, 1.0, 1.0, 1.0])
    once = ours.plan(cold, plan.table, memory=plan.memory)
    assert once.table.explicit_hashes.tolist() == away.tolist(), "one cool window is no reason to move"
    twice = ours.plan(cold, once.table, memory=once.memory)
    assert not len(twice.table.explicit_hashes)
    assert sorted(twice.moves.keys.tolist()) == sorted(away.tolist()), "going home is a move like any other"
    assert not len(twice.memory.tables["hot_keys"])
    back = ours.plan(Statistics.of_keys(keys, [40.0, 20.0, 15.0, 12.0]), once.table, memory=once.memory)
    assert back.memory.tables["hot_keys"]["cool_windows"].to_pylist() == [0, 0, 0, 0], "hot again in time: not dropped"


def test_silent_keys_cool_down_too():
    ours = Smalops(hot_by="abs", hot_threshold=10)
    table = RoutingTable.initial(4, slots=16)
    plan = ours.plan(Statistics.of_keys(np.arange(8), [50.0] * 8), table)
    for _ in range(2):
        plan = ours.plan(Statistics.of_keys([99], [1.0]), plan.table, memory=plan.memory)
    assert not len(plan.table.explicit_hashes)


def test_keys_above_the_mean_are_reported():
    statistics = Statistics.of_keys([1, 2, 3, 4], [100.0, 90.0, 10.0, 5.0])
    report = planner("smalops").plan(statistics, RoutingTable.initial(4)).report
    assert report.unsplittable == (1, 2)  # the mean is 51.25
    with_cold = Statistics(
        [1, 2], [60.0, 30.0], [60.0, 30.0], [0, 0], [210.0] + [0.0] * 15, [210.0] + [0.0] * 15, [0.0] * 16
    )
    table = RoutingTable.initial(4, slots=16)
    assert planner("smalops").plan(with_cold, table).report.unsplittable == (1, 2), "hot keys alone: 22.5 each"
    assert planner("smalops", include_cold=True).plan(with_cold, table).report.unsplittable == ()  # 75 each


@pytest.mark.parametrize(("partitions", "heavy"), [(16, 0), (17, 1)])
def test_the_generator_s_first_key_exceeds_the_mean_of_hot_keys_beyond_16_partitions(partitions, heavy):
    law = (2.72 + np.arange(14_600)) ** -1.1
    loads = law / law[0] * 4.48  # percent; 14,600 keys carry 72.6
    assert loads.sum() == pytest.approx(72.6, abs=0.5)
    statistics = Statistics.of_keys(np.arange(14_600), loads)
    plan = planner("smalops", hot_by="listed").plan(statistics, RoutingTable.initial(partitions))
    assert len(plan.report.unsplittable) == heavy


def test_by_default_a_key_is_hot_from_a_hundredth_of_a_mean_channel_on():
    for channels in (2, 10, 50):
        mean = 10_000 / channels
        problem = hot_problem([0.01 * mean, 0.0099 * mean, 10_000 - 0.0199 * mean], [0, 0, 0], channels)
        assert Smalops().hot_keys(problem).tolist() == [0, 2]


def test_inequality_4_as_printed_and_as_meant():
    numbers = {"message_seconds": 50e-6, "rate": 6000, "source_rate": 30000, "target_rate": 12000}
    assert not worth_moving("printed", move_seconds=0, **numbers)
    tiny = {"message_seconds": 50e-6, "rate": 2, "source_rate": 1000, "target_rate": 100}
    assert worth_moving("printed", move_seconds=0.39e-6, **tiny)
    assert not worth_moving("printed", move_seconds=0.41e-6, **tiny)
    assert worth_moving("backlog", move_seconds=0.6000, **numbers)
    assert not worth_moving("backlog", move_seconds=0.6001, **numbers)
    lags = {"message_seconds": 50e-6, "source_lag": 100_000, "target_lag": 0}
    assert worth_moving("backlog", move_seconds=4.99, **lags)
    assert not worth_moving("backlog", move_seconds=5.01, **lags)
    assert worth_moving("none", message_seconds=1, move_seconds=1e9)


def test_the_rule_keeps_streams_back():
    problem = hot_problem([60, 25, 15, 10, 30, 20, 20], [0, 0, 0, 0, 1, 1, 2], 3, state=[0, 0, 100, 0, 0, 0, 0])
    free = STAY.assign(problem, Memory()).owner.tolist()
    backlog = {"rule": "backlog", "first_place": "stay", "interval_seconds": 1.0, "message_seconds": 0.01}
    assert Smalops(**backlog).assign(problem, Memory()).owner.tolist() == free
    costly = Smalops(**backlog, move_seconds_per_byte=0.1).assign(problem, Memory())
    assert costly.owner[2] == 0, "ten seconds for its state are more than it could gain"
    assert "refused=1" in costly.notes
    printed = Smalops(rule="printed", first_place="stay", interval_seconds=1.0).assign(problem, Memory())
    assert printed.owner.tolist() == problem.current.tolist(), "as printed, next to nothing moves"


def test_measured_lags_decide_where_there_are_any():
    use = ChannelUse(10.0, lag_tuples=[0.0, 5000.0])
    problem = hot_problem([30, 20, 10], [0, 0, 1], 2, use=use)
    lagging = Smalops(rule="backlog", first_place="stay")
    assert lagging.assign(problem, Memory()).owner.tolist() == [0, 0, 1], "the lighter channel is the one behind"
    swapped = dataclasses.replace(problem, use=ChannelUse(10.0, lag_tuples=[5000.0, 0.0]))
    assert lagging.assign(swapped, Memory()).owner.tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"tolerance": -0.1},
        {"hot_by": "luck"},
        {"hot_threshold": 0.0},
        {"hot_by": "cover", "hot_threshold": 1.5},
        {"hot_by": "abs", "hot_threshold": 0},
        {"hot_by": "abs"},
        {"cooling_windows": 0},
        {"first_place": "home"},
        {"rule": "maybe"},
        {"message_seconds": 0.0},
        {"move_seconds": -1.0},
    ],
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ArgumentError):
        Smalops(**wrong)
