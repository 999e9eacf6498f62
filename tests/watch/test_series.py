"""What the page plots, without a browser."""

from __future__ import annotations

import pytest

from made_up import batch
from unskew.runtime.decisions import decisions
from unskew.runtime.figures import HotKey, MoveMade
from unskew.watch import series
from unskew.watch.words import glance, why


def test_time_is_saved_only_where_tasks_run_at_once() -> None:
    even = {"channel_seconds": (1.5,) * 4, "busiest_seconds": 1.5, "hash_seconds": 4.0, "tasks": 4}
    assert series.saved_seconds(batch(0, **even, cores=4)) == 2.5
    assert series.saved_seconds(batch(0, **even, cores=2)) == 1.0, "two cores need 3 s for 6 s of work"
    assert series.saved_seconds(batch(0, **even, cores=1)) == 0.0
    assert series.saved_seconds(batch(0, **{**even, "tasks": 1}, cores=4)) == 0.0
    assert series.saved_seconds(batch(0, hash_seconds=None)) == 0.0
    assert series.saved_seconds(batch(0, **{**even, "hash_seconds": 1.0}, cores=4)) == -0.0 + 1.5 - 1.5


def test_a_hash_that_was_better_costs_time() -> None:
    luckier = {"channel_seconds": (2.0, 1.0), "busiest_seconds": 2.0, "hash_seconds": 1.6, "tasks": 2, "cores": 2}
    assert series.saved_seconds(batch(0, **luckier)) == pytest.approx(-0.4)


def test_many_batches_share_points() -> None:
    batches = [batch(number) for number in range(1000)]
    columns = series.over_time(batches)
    assert len({len(values) for values in columns.values()}) == 1
    assert len(columns["batch"]) <= series.MOST_POINTS
    assert columns["span"][0] == "0 to 3"
    worst = max(batches[:4], key=lambda each: each.imbalance)
    assert columns["batch"][0] == worst.batch_id
    assert sum(columns["late"]) == sum(each.late_rows for each in batches)
    assert columns["saved"][-1] == pytest.approx(sum(map(series.saved_seconds, batches)))


def test_stages_are_those_that_people_know() -> None:
    assert series.stage_seconds(batch(0)) == {
        "count": 0.2, "plan": 0.01, "work": 2.1, "sink": 0.15, "commit": pytest.approx(0.03)
    }  # fmt: skip


def test_hot_keys_have_gaps() -> None:
    one, other = HotKey("ada", 0.5, 0), HotKey("bob", 0.3, 1)
    batches = [batch(0, hot_keys=(one, other)), batch(1, hot_keys=(other,)), batch(2, hot_keys=())]
    assert series.hot_keys(batches) == {"bob": [0.3, 0.3, None], "ada": [0.5, None, None]}


def test_a_channel_that_was_not_called_keeps_its_state() -> None:
    batches = [batch(0, channels=3, channel_bytes=(5, 6, 7)), batch(1, channels=2, channel_bytes=(-1, 9))]
    assert series.states(batches) == {"channel": [0, 1], "bytes": [5, 9]}
    assert series.states([batch(1, channels=2, channel_bytes=(-1, 9))]) == {"channel": [1], "bytes": [9]}
    assert series.states([]) == {"channel": [], "bytes": []}


def test_moves_flow_between_channels() -> None:
    moves = (MoveMade("key", "ada", 0, 1), MoveMade("key", "bob", 0, 1), MoveMade("slot", "7", 2, 1))
    flows = series.flows([batch(0, moves=moves), batch(1, moves=moves[:1])])
    assert flows == {"source": [0, 2], "target": [1, 1], "moves": [3, 1], "names": ["ada, bob", "slot 7"]}


def test_loads_are_in_rows_where_nothing_is_measured() -> None:
    unmeasured = batch(0, measured=False, channels=2, channel_rows=(30, 10), hash_imbalance=2.0)
    assert series.loads(unmeasured) == {"channel": [0, 1], "load": [30, 10]}
    assert series.levels(unmeasured) == (20.0, 40.0)
    assert series.levels(batch(0, hash_imbalance=None))[1] is None


def test_decisions_are_held_against_what_came_of_them() -> None:
    planned = {"overload_before": 0.8, "overload_after": 0.02, "overload_bound": 0.01}
    first = batch(20, imbalance=1.05, plan=planned, channels=2, channel_seconds=(3.0, 1.0))
    second = batch(21, plan={**planned, "overload_before": 0.1})
    [one, two] = decisions([first, batch(22, rows=0, plan=None), second])
    assert (one.batch_id, one.overload_bound, one.reason, one.planner) == (20, 0.01, "planned", "mixed")
    assert one.gain_planned == pytest.approx(0.78)
    assert one.gain_measured == pytest.approx(0.75)
    assert one.gain_next == pytest.approx(0.7), "the next batch with rows met 0.1 before it was planned itself"
    assert one.gained_seconds == pytest.approx(0.75 * 2.0)
    assert one.cost_seconds == pytest.approx(0.007)
    assert two.gain_next is None
    [alone, *_] = decisions([first, batch(21, plan=None, imbalance=1.3)])
    assert alone.gain_next == pytest.approx(0.5), "a batch that nobody planned met what was measured"


def test_a_batch_tells_why() -> None:
    moved = " ".join(why(batch(20)))
    assert "would have had 1.85 times the mean. The planner mixed brought it to 1.02." in moved
    assert "No plan can go below 1.00 while keys are whole." in moved
    assert "2 keys and 6 slots moved, with 5.1 KiB of state: user-7 1 → 2," in moved
    kept = " ".join(why(batch(21)))
    assert "too little to move state for" in kept
    assert "Not worth moving: user-7 1 → 2." in kept
    waiting = " ".join(why(batch(20, left=batch(21).left, left_moves=1)))
    assert "To move in later batches (max_move_bytes): user-7" in waiting
    assert "ran whole in one task" in " ".join(why(batch(3, plan=None, planner=None, way="whole")))
    heavy = {**batch(20).plan, "unsplittable": ["ada"]}
    assert "Too heavy for one channel: ada." in " ".join(why(batch(20, plan=heavy)))
    assert "There are 8 channels now." in " ".join(why(batch(20, reason="resized")))


def test_a_glance() -> None:
    shown = glance([batch(number) for number in range(30)])
    assert shown["Time saved"][1] == "counting and planning took 6.3 s"
    assert shown["Moves"][0] == "16"
    assert shown["Watermark"][1].endswith("late rows")
    assert "Watermark" not in glance([batch(0, watermark_ms=None)])
    assert glance([batch(0, hash_seconds=None)])["Time saved"][0] == "unknown"
