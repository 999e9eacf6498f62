"""flux-load: the algebra of Figure 6, every test of a pair, and a slow reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.load import ChannelUse
from unskew.planners import Memory, Problem
from unskew.planners.flux import FluxHybrid, FluxLoad


def slots(tuples, current, idle=None, *, channels=2, window=1.0, **more):
    use = ChannelUse(window, idle_seconds=idle, **more) if idle is not None or more else None
    return Problem.of_keys(tuples, channels=channels, current=current, home=current, use=use)


def owners(problem, planner=None):
    return (planner or FluxLoad()).assign(problem, Memory()).owner.tolist()


@pytest.mark.parametrize(("capacity", "moves"), [(0.43, 31), (0.42, 32)])
def test_one_loaded_site_gives_away_as_many_partitions_as_the_algebra_says(capacity, moves):
    """32 sites of 64 equal partitions, one slowed down: it alone is saturated, all others wait for it."""
    owner = np.repeat(np.arange(32), 64)
    moved = 0
    while True:
        held = np.bincount(owner, minlength=32)
        speed = np.where(np.arange(32) == 0, capacity, 1.0)
        busy = held / speed
        busy /= busy.max()
        problem = slots(np.ones(2048), owner, 1 - busy, channels=32)
        answer = FluxLoad().assign(problem, Memory()).owner
        if np.array_equal(answer, owner):
            break
        assert (owner[answer != owner] == 0).all()
        moved += int((answer != owner).sum())
        owner = answer
    assert moved == moves


def test_pairs_form_from_the_ends_and_each_moves_one_slot():
    current = [0, 0, 1, 1, 2, 3]
    # busy 1.0, 0.9, 0.4, 0.1: (0, 3) and (1, 2)
    assert owners(slots([50, 50, 45, 45, 40, 10], current, [0.0, 0.1, 0.6, 0.9], channels=4)) == [3, 0, 2, 1, 2, 3]


def test_the_first_pair_that_fails_ends_the_round():
    # pair (0, 3) lacks the ratio, pair (1, 2) cannot have it then
    assert owners(slots([10, 10, 9, 9], [0, 1, 2, 3], [0.0, 0.0, 0.1, 0.1], channels=4)) == [0, 1, 2, 3]


def test_a_pair_without_a_useful_slot_is_skipped_and_the_next_still_moves():
    # channel 0 holds one slot: giving it away would only swap the roles, or overload the receiver
    current = [0, 1, 1, 2, 3]
    assert owners(slots([100, 60, 20, 40, 50], current, [0.0, 0.1, 0.6, 0.5], channels=4)) == [0, 1, 3, 2, 3]


def test_a_receiver_above_the_limit_takes_nothing():
    assert owners(slots([50, 50, 92], [0, 0, 1], [0.0, 0.08])) == [0, 0, 1]
    problem = slots([50, 50, 80, 80, 91, 60], [0, 0, 1, 1, 2, 3], [0.0, 0.0, 0.3, 0.3], channels=4)
    assert owners(problem, FluxLoad(receiver_limit=0.5)) == [0, 0, 1, 1, 2, 3]


def test_a_slot_that_would_overload_the_receiver_is_passed_over_for_a_lighter_one():
    # receiver: 0.8 busy with 80 rows, so 30 rows more are 1.1 and 15 are 0.95
    assert owners(slots([85, 10, 5, 80], [0, 0, 0, 1], [0.0, 0.2])) == [0, 1, 0, 1]


def test_a_receiver_without_rows_is_judged_by_the_mean_cost_of_a_row():
    assert owners(slots([60, 40], [0, 0], [0.0, 1.0])) == [1, 0]


def test_without_idle_times_loads_are_compared_with_the_highest():
    assert owners(slots([30, 20, 10, 20], [0, 0, 0, 1])) == [1, 0, 0, 1]
    assert owners(slots([10, 10, 10, 26], [0, 0, 0, 1])) == [0, 0, 0, 1]


def test_nothing_moves_without_rows_or_with_everybody_busy():
    assert owners(slots([0, 0], [0, 0], [0.0, 1.0])) == [0, 0]
    assert owners(slots([50, 10], [0, 1], [0.0, 0.0])) == [0, 1]


def reference(tuples, current, busy, ratio, limit):
    """The pseudo code of the paper, word for word, on lists."""
    n = len(busy)
    order = sorted(range(n), key=lambda j: (-busy[j], j))
    mean, held = sum(busy) / n, [sum(t for t, c in zip(tuples, current, strict=True) if c == j) for j in range(n)]
    answer = list(current)
    for k in range(n // 2):
        d, r = order[k], order[n - 1 - k]
        if busy[d] < mean or busy[d] / max(busy[r], 1e-9) < ratio or busy[r] > limit:
            break
        for p in sorted((p for p in range(len(tuples)) if current[p] == d), key=lambda p: (-tuples[p], p)):
            if tuples[p] == 0:
                continue
            each = busy[r] / held[r] if held[r] else sum(busy) / sum(held)
            donor, receiver = busy[d] - busy[d] * tuples[p] / held[d], busy[r] + each * tuples[p]
            if receiver <= 1 and abs(donor - receiver) < abs(busy[d] - busy[r]):
                answer[p] = r
                break
    return answer


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_rounds_agree_with_the_pseudo_code(data):
    channels, count = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 25))
    tuples = data.draw(st.lists(st.integers(0, 64), min_size=count, max_size=count))
    current = data.draw(st.lists(st.integers(0, channels - 1), min_size=count, max_size=count))
    busy = data.draw(st.lists(st.integers(0, 64).map(lambda n: n / 64), min_size=channels, max_size=channels))
    problem = slots(tuples, current, 1 - np.array(busy), channels=channels)
    assert owners(problem) == reference(tuples, current, busy, 1.2, 0.9)
    assert owners(problem, FluxHybrid()) == reference(tuples, current, busy, 1.2, 0.9), "memory is unlimited"


@pytest.mark.parametrize(
    "wrong", [{"imbalance_ratio": 1.0}, {"shortest_collection": 0}, {"receiver_limit": 0.0}, {"tolerance": -1.0}]
)
def test_parameters_out_of_range_are_refused(wrong):
    with pytest.raises(ArgumentError, match=next(iter(wrong))):
        FluxLoad(**wrong)
