"""One test per ruling of the specification that changes a result; the name says what was ruled."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.planners.fang.reference import Plain, random_problem

from unskew.planners import Memory, Problem
from unskew.planners.fang import Llfd, MinMig, MinTable, Mixed, MixedBf, Simple
from unskew.planners.fang.order import _kernel_priority

FIG_4 = Problem.of_keys([7, 4, 2, 1, 5, 1], channels=2, current=[0, 0, 1, 1, 0, 1], home=[0, 0, 0, 1, 1, 1])
ALL = [Llfd, MinTable, MinMig, Mixed, MixedBf, Simple]


@pytest.mark.parametrize("cls", ALL)
def test_the_trigger_looks_at_overload_only(cls):
    # five channels at 1.08 of the mean, one at 0.60: a two-sided trigger would fire for ever
    problem = Problem.of_keys([54, 54, 54, 54, 54, 30], channels=6, current=range(6), home=range(6))
    answer = cls(tolerance=0.08).assign(problem, Memory())
    assert answer.owner.tolist() == [0, 1, 2, 3, 4, 5]
    report = cls(tolerance=0.08).describe(problem, answer)
    assert report.overload_after == pytest.approx(0.08)
    assert report.deviation_after == pytest.approx(0.40)


@pytest.mark.parametrize("cls", ALL)
def test_a_mean_load_of_zero_is_left_alone(cls):
    problem = Problem.of_keys([0, 0, 0], channels=2, current=[1, 1, 1], home=[0, 0, 0])
    assert cls().assign(problem, Memory()).owner.tolist() == [1, 1, 1]


def test_a_key_that_fits_exactly_is_accepted():
    # with `<` in place of `<=`, Fig. 4 strands k4: nothing lets it in
    assert Llfd(tolerance=0).assign(FIG_4, Memory()).forced == 0


def test_running_loads_decide_which_channel_is_least_loaded():
    # after phase II the loads are 1, 1, 2; by the loads of the interval (9, 1, 2) the first key would go to channel 1,
    # and the second after it
    problem = Problem.of_keys([4, 4, 1, 2, 1], channels=3, current=[0, 0, 0, 2, 1], home=[0, 0, 0, 2, 1])
    assert Llfd(tolerance=0.05).assign(problem, Memory()).owner.tolist() == [0, 1, 2, 2, 2]


def test_a_key_that_no_channel_accepts_is_forced_onto_the_least_loaded():
    problem = Problem.of_keys([9, 9, 9, 1], channels=2, current=[0, 0, 0, 1], home=[0, 0, 0, 1])
    answer = Llfd(tolerance=0).assign(problem, Memory())
    assert answer.owner.tolist() == [1, 0, 0, 1]
    assert answer.forced == 1


@pytest.mark.parametrize(
    ("current", "home", "expected"), [(2, 1, 2), (0, 2, 2), (0, 0, 1)], ids=["current", "home", "first"]
)
def test_forced_ties_prefer_the_current_channel_then_home_then_the_first(current, home, expected):
    # the last key is taken off first, which leaves loads of 6, 5, 5 under a mean of 7: it fits nowhere
    problem = Problem.of_keys(
        [6, 5, 5, 5], channels=3, current=[0, 1, 2, current], home=[0, 1, 2, home], state=[9, 9, 9, 1]
    )
    answer = MinMig(tolerance=0, migration_exponent=1).assign(problem, Memory())
    assert answer.owner.tolist() == [0, 1, 2, expected]
    assert answer.forced == 1


def test_mixed_ends_where_the_printed_rule_repeats_itself():
    # |table'| - cap is 1 after n = 0 and again after n = 1
    assert Mixed(tolerance=0, table_cap=3).assign(FIG_4, Memory()).notes == ()


def test_mixed_never_cleans_more_than_the_table_holds():
    assert Mixed(tolerance=0, table_cap=0).assign(FIG_4, Memory()).notes == ("table_overflow",)


def test_mixed_jumps_to_a_whole_cleaning_after_sixteen_trials():
    class Growing:
        table_size = 1000

        def trial(self, cleaned, by_cost=False):
            from unskew.planners.fang.balance import Trial

            return Trial(cleaned, np.empty((3, 0), np.int64), np.ones(2), 11, 0.0, 0)

    cleaned = [trial.cleaned for trial in Mixed(table_cap=10).trials(Growing())]
    assert cleaned == [*range(16), 1000]


def test_mixed_bf_prefers_balance_then_the_cap_then_little_migration():
    rng = np.random.default_rng(11)
    for _ in range(100):
        problem = random_problem(rng)
        plain = Plain(problem, 0.1)
        owner = MixedBf(tolerance=0.1, table_cap=3).assign(problem, Memory()).owner
        assert owner.tolist() == plain.mixed_bf(3).owner


def test_mixed_bf_strides_over_large_tables_but_always_tries_both_ends():
    assert MixedBf(tolerance=0, table_cap=2, max_trials=2).assign(FIG_4, Memory()).notes == ()
    assert MixedBf(tolerance=0, table_cap=4, max_trials=2).assign(FIG_4, Memory()).owner.tolist() == [1, 0, 1, 0, 0, 1]


def test_theorem_2_and_4_are_not_strictly_true_and_fallback_makes_them_so():
    problem = Problem.of_keys(
        [30, 23, 26, 10, 7, 24],
        channels=2,
        home=[0, 1, 0, 0, 1, 1],
        current=[0, 1, 1, 0, 1, 0],
        state=[18, 8, 1, 6, 11, 6],
    )
    mixed = Mixed(tolerance=0).assign(problem, Memory())
    assert problem.loads(mixed.owner).tolist() == [61, 59]
    simple = Simple(tolerance=0).assign(problem, Memory())
    assert problem.loads(simple.owner).tolist() == [60, 60]
    rescued = Mixed(tolerance=0, fallback=("llfd", "mintable", "simple")).assign(problem, Memory())
    assert problem.loads(rescued.owner).max() == 60


def test_priority_at_the_exponents_of_the_paper():
    assert _kernel_priority(7, 7, 1.0) == _kernel_priority(4, 4, 1.0) == 1
    assert _kernel_priority(4, 4, 0.5) > _kernel_priority(7, 7, 0.5)
    assert _kernel_priority(7, 7, 1.5) > _kernel_priority(4, 4, 1.5)


def test_no_state_means_the_highest_priority():
    assert _kernel_priority(1, 0, 1.5) == np.inf
    problem = Problem.of_keys([5, 3, 3, 1], channels=2, current=[0, 0, 0, 1], home=[0, 0, 0, 1], state=[1, 1, 0, 1])
    assert MinMig(tolerance=0.34).assign(problem, Memory()).owner.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("cls", [Llfd, MinMig, Mixed])
def test_keys_without_cost_are_never_moved(cls):
    rng = np.random.default_rng(5)
    cost = np.where(rng.random(60) < 0.5, 0, rng.integers(1, 9, 60))
    problem = Problem.of_keys(
        cost, channels=3, current=np.zeros(60, int), home=rng.integers(0, 3, 60), state=np.zeros(60)
    )
    answer = cls(tolerance=0).assign(problem, Memory())
    assert (answer.owner[cost == 0] == 0).all()
    assert problem.loads(answer.owner).max() < problem.loads(problem.current).max()


def test_growing_leaves_owners_and_drains_the_table():
    home = np.array([0, 1, 2, 2, 2, 2])
    problem = Problem.of_keys([2, 2, 1, 1, 1, 1], channels=3, current=[0, 1, 0, 0, 1, 1], home=home, channels_before=2)
    assert Mixed(tolerance=2, table_cap=4).assign(problem, Memory()).owner.tolist() == [0, 1, 0, 0, 1, 1]
    drained = Mixed(tolerance=2, table_cap=1).assign(problem, Memory())
    assert (drained.owner != home).sum() == 1
    assert MinTable(tolerance=2, table_cap=1).assign(problem, Memory()).owner.tolist() == home.tolist()


@pytest.mark.parametrize("cls", [Llfd, MinTable, MinMig, Mixed, MixedBf])
def test_keys_of_a_channel_that_leaves_go_home_first(cls):
    problem = Problem.of_keys([1, 1, 1, 1], channels=2, current=[0, 1, 2, 2], home=[0, 1, 0, 1])
    answer = cls().assign(problem, Memory())
    assert answer.owner.tolist() == [0, 1, 0, 1]
    assert cls().describe(problem, answer).migration_cost == 2


@pytest.mark.parametrize("cls", ALL)
def test_background_load_counts_and_stays(cls):
    problem = dataclasses.replace(
        Problem.of_keys([2, 2, 2], channels=2, current=[0, 0, 0], home=[0, 0, 0]), background_cost=np.array([0.0, 6])
    )
    assert cls(tolerance=0).assign(problem, Memory()).owner.tolist() == [0, 0, 0]
    problem = dataclasses.replace(problem, background_cost=np.array([6.0, 0]))
    assert cls(tolerance=0).assign(problem, Memory()).owner.tolist() == [1, 1, 1]
