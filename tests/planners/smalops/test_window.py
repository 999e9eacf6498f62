"""Hot keys of a window: none missed, counts low by little, everything else by slot."""

from __future__ import annotations

import numpy as np
import pytest

from unskew.errors import ArgumentError
from unskew.planners import planner
from unskew.planners.smalops import HotKeyWindow, hot_positions
from unskew.routing import RoutingTable


def stream(rng, n, keys=20_000):
    law = (2.72 + np.arange(keys)) ** -1.1
    ids = rng.choice(keys, n, p=law / law.sum())
    return ids * np.int64(0x9E3779B97F4A7C15 - 2**64)


@pytest.mark.parametrize(("hot_by", "threshold"), [("share", 0.001), ("abs", 100), ("cover", 0.5)])
@pytest.mark.parametrize("counted", [False, True])
def test_no_hot_key_is_missed(hot_by, threshold, counted):
    rng = np.random.default_rng(1)
    window = HotKeyWindow(hot_by, threshold, slots=64, expected_tuples=50_000)
    for n in (50_000, 120_000):
        hashes = stream(rng, n)
        for batch in np.array_split(hashes, 7):
            window.update_counts(*np.unique(batch, return_counts=True)) if counted else window.update(batch)
        assert window.tuples == n
        keys, counts = np.unique(hashes, return_counts=True)
        closed = window.close()
        hot = keys[hot_positions(counts.astype(float), n, hot_by, threshold)]
        assert set(hot.tolist()) <= set(closed.hashes.tolist())
        truth = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        limit = {"share": threshold * n, "abs": threshold, "cover": np.inf}[hot_by]
        for key, count in zip(closed.hashes.tolist(), closed.cost.tolist(), strict=True):
            assert truth[key] - limit / 10 * 2.4 <= count <= truth[key]  # the second window is 2.4 times the first
            assert hot_by == "cover" or truth[key] >= 0.75 * limit
        assert closed.total_tuples == n, "what is not hot is counted by slot"
        slots = np.bincount(np.mod(hashes, 64), minlength=64)
        listed = np.bincount(np.mod(closed.hashes, 64), closed.cost, 64)
        assert np.array_equal(closed.slot_cost, slots - listed)
    assert window.tuples == window.counters == 0


def test_what_a_window_lists_is_what_the_planner_moves():
    rng = np.random.default_rng(2)
    window = HotKeyWindow("abs", 100, slots=16, expected_tuples=50_000)
    window.update(stream(rng, 50_000))
    closed = window.close()
    plan = planner("smalops", hot_by="listed").plan(closed, RoutingTable(16, np.arange(16)))
    assert f"hot={len(closed.hashes)}" in plan.report.notes
    assert set(plan.moves.keys.tolist()) <= set(closed.hashes.tolist())
    assert plan.report.overload_after < plan.report.overload_before


def test_a_window_must_be_able_to_tell():
    with pytest.raises(ArgumentError, match="which keys are hot"):
        HotKeyWindow("listed", slots=4)
    with pytest.raises(ArgumentError, match="at least one slot"):
        HotKeyWindow(slots=0)
