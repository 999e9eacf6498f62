"""The arithmetic of advice, against hand-worked answers and slow references."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.advice.advice import NOTHING, Found, make_advice
from unskew.advice.keys import KeyLoads
from unskew.advice.predict import (
    BALANCE,
    COMBINE,
    COUNTING_SECONDS,
    NOW,
    PARTITIONS,
    SPLIT,
    Timing,
    makespan,
    remedies,
)

FOUND = Found("rows", ("user",), "rows", "counted", "exact")
loads = st.lists(st.floats(0.1, 100.0), min_size=1, max_size=40)


def keys_of(load, hashes=None):
    places = np.arange(len(load)) if hashes is None else hashes
    names = [f"key {place}" for place in range(len(load))]
    return KeyLoads.of_keys(names, load, places, np.arange(len(load)) * 2654435761 % (1 << 40), residues=4 * 8 * 3)


def by_name(made):
    return {each.name: each for each in made}


def slow_makespan(tasks, cores):
    """Step through time: whoever is free takes the next task."""
    ends, waiting = [0.0] * cores, list(tasks)
    while waiting:
        core = min(range(cores), key=lambda each: ends[each])
        ends[core] += waiting.pop(0)
    return max(ends)


@given(loads, st.integers(1, 12))
def test_the_last_task_ends_when_a_step_by_step_run_says(tasks, cores):
    assert makespan(np.array(tasks), cores) == pytest.approx(slow_makespan(tasks, cores))


def test_a_planted_key_by_hand():
    # 8 keys of 1, one for each partition, and a hot one of 8 beside the first: 9 now, 8 at best with whole keys
    keys = keys_of([8.0] + [1.0] * 8, np.array([0, *range(8)]))
    made = by_name(remedies(keys, Timing(16.0, measured=False), partitions=8, cores=8))
    assert keys.by_partition(8).tolist() == [9, 1, 1, 1, 1, 1, 1, 1]
    assert (made[NOW].seconds, made[BALANCE].seconds, made[SPLIT].seconds) == (9.0, 8.0, 2.0)
    assert made[BALANCE].gain == pytest.approx(9 / 8)
    assert made[SPLIT].gain == pytest.approx(4.5)


def test_two_hot_keys_that_meet_in_one_partition():
    keys = keys_of([4.0, 4.0] + [1.0] * 24, np.array([0, 0, *(place % 8 for place in range(24))]))
    made = by_name(remedies(keys, Timing(32.0, measured=False), partitions=8, cores=8))
    assert made[NOW].seconds == 11.0  # two hot keys and three small ones
    assert made[BALANCE].seconds == pytest.approx(4.0, abs=0.4)  # the planner may leave 8 %
    assert made[BALANCE].gain > 2.5


def test_fixed_time_and_counting_are_in_the_prediction():
    keys = keys_of([4.0, 4.0, 1.0, 1.0], np.array([0, 0, 1, 1]))
    timing = Timing(work_seconds=10.0, fixed_seconds=1.0, rows=10.0)
    made = by_name(remedies(keys, timing, partitions=2, cores=2))
    assert made[NOW].seconds == pytest.approx(9.0)
    assert made[BALANCE].seconds == pytest.approx(1.0 + 5.0 + COUNTING_SECONDS, rel=1e-3)


def test_more_partitions_part_what_met_by_chance():
    keys = keys_of([4.0, 4.0, 1.0, 1.0], np.array([0, 2, 1, 3]))  # 0 and 2 meet in 2 partitions, not in 4
    made = by_name(remedies(keys, Timing(10.0, measured=False), partitions=2, cores=4))
    assert (made[NOW].seconds, made[PARTITIONS].seconds, made[PARTITIONS].tasks) == (8.0, 4.0, 4)


def test_combined_rows_of_a_hot_key_are_one_a_reader():
    keys = keys_of([10_000.0, 1.0])
    assert keys.combined(4).load.tolist() == pytest.approx([4.0, 1.0])
    assert keys.combined(1).load.tolist() == [1.0, 1.0]
    made = by_name(remedies(keys, Timing(10_001.0, rows=10_001.0, measured=False), partitions=4, cores=4))
    assert made[COMBINE].seconds == pytest.approx(10_001 / 4 + 4.0, rel=1e-3)


@given(loads, st.sampled_from([1, 2, 4, 8]))
def test_no_remedy_loses_load_and_balance_keeps_to_its_bounds(load, channels):
    keys = keys_of(load)
    total = sum(load)
    for made in (keys.balanced(channels), keys.split(channels), keys.by_partition(channels)):
        assert made.sum() == pytest.approx(total)
    bound = max(*load, total / channels)
    assert bound <= keys.balanced(channels).max() * (1 + 1e-9)
    assert keys.split(channels).max() <= keys.balanced(channels).max() * (1 + 1e-9) + max(load)


def test_even_keys_are_left_alone_and_the_cost_is_said():
    keys = keys_of([1.0] * 80)
    timing = Timing(work_seconds=8 * 5.0, fixed_seconds=0.0, rows=80.0)
    advice = make_advice(FOUND, keys, timing, partitions=8, cores=8)
    assert (advice.best, advice.gain, advice.change) == (NOTHING, 1.0, "")
    assert advice.verdict.startswith("Your keys are even: the fullest partition has 1.00 times the mean.")
    assert advice.verdict.endswith("unskew would cost 3%.")  # 0.15 s of 5 s


def test_a_key_that_no_task_can_carry_is_named_for_splitting():
    keys = keys_of([1000.0] + [0.1] * 8, np.array([0, *range(8)]))
    advice = make_advice(FOUND, keys, Timing(1000.8, measured=False), partitions=8, cores=8)
    assert advice.best == SPLIT
    assert advice.change == 'events.groupBy("user")  becomes  unskew.balance(events, "user", split="auto")'
    assert "The hottest key is key 0" in advice.verdict


def test_skew_is_worth_a_change():
    keys = keys_of([4.0, 4.0] + [1.0] * 24, np.array([0, 96 * 4, *(place % 8 for place in range(24))]))
    advice = make_advice(FOUND, keys, Timing(32.0, rows=32.0, measured=False), partitions=8, cores=8)
    assert advice.best == BALANCE
    assert advice.change == 'events.groupBy("user")  becomes  unskew.balance(events, "user")'
    assert advice.skew_share == pytest.approx((11 - 4) / 11)


def test_the_page_needs_nothing_from_outside_and_escapes_keys():
    keys = KeyLoads.of_keys(["<b>ada</b>", "bob"], [5.0, 1.0], [0, 1], [7, 8], residues=8)
    page = make_advice(FOUND, keys, Timing(6.0, measured=False), partitions=2, cores=2).as_html()
    assert "&lt;b&gt;ada&lt;/b&gt;" in page
    assert "<b>ada" not in page
    assert "://" not in page
    assert "<script" not in page
