from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.bench import benchmarks
from unskew.bench.skew.contenders import EVERYBODY, HASH, IDEAL, PKG, ROUND_ROBIN, SALTING, SPARKS_HASH, SPLIT, mixed
from unskew.bench.skew.delayed_count import DelayedCount, spend
from unskew.bench.skew.delayed_join import DelayedJoin
from unskew.bench.skew.lane import Lane
from unskew.bench.skew.measures import Measured, batches_until_even, event_latencies
from unskew.bench.skew.parts import quick_parts, whole_parts
from unskew.bench.skew.race import Runs, Setup, race
from unskew.bench.skew.rows import THROUGHPUT, rows_of, split_targets, targets
from unskew.bench.skew.streams import KEYS, shifting
from unskew.operators.self_join import SelfJoin
from unskew.testing import run

SETUP = Setup(channels=10, work_seconds=2.0)


def measured(seconds, overload=None, **changes):
    count = len(seconds)
    fields = {
        "seconds": seconds,
        "overload": overload or [0.0] * count,
        "channels": [10] * count,
        "moved_bytes": [0] * count,
        "state_bytes": [100] * count,
        "table_keys": [0] * count,
        "planning_seconds": [],
    }
    return Measured(**{**fields, **changes})


def values(rows, name):
    return {row.contender: row.value for row in rows if row.name == name}


def test_the_benchmark_registers_itself():
    assert "skew" in benchmarks


def test_the_hot_keys_of_two_stretches_differ_and_the_skew_does_not():
    stream = replace(shifting(1.0, epochs=2, hold=3), warm_up=2, rows=50_000)
    keys = [stream.batch(number)["key"].to_numpy() for number in range(stream.batches)]
    hottest = [np.bincount(batch).argmax() for batch in keys]
    assert [len(set(part)) for part in (hottest[:2], hottest[2:5], hottest[5:])] == [1, 1, 1]
    assert len(set(hottest)) == 3
    share = 1 / (1 / np.arange(1, KEYS + 1)).sum()
    for batch in keys:
        assert np.bincount(batch).max() / len(batch) == pytest.approx(share, abs=0.01)
    assert not (keys[2] == keys[3]).all()


def test_files_are_read_in_their_order(tmp_path):
    stream = replace(shifting(1.0, epochs=1, hold=3), warm_up=1, rows=10)
    stream.write(tmp_path)
    files = sorted(tmp_path.iterdir(), key=lambda path: path.stat().st_mtime)
    assert [path.name for path in files] == [f"{number:05d}.parquet" for number in range(4)]


def test_whoever_does_the_work_spends_the_time(monkeypatch):
    spent = []
    monkeypatch.setattr("unskew.bench.skew.delayed_count.spend", lambda seconds, kind: spent.append((seconds, kind)))
    rows = pa.table({"key": ["a", "b", "a"]})
    for operator, expected in (
        (DelayedCount(0.5), (1.5, {"wait"})),
        (DelayedCount(0.5, "worker", kind="cpu"), (1.5, {"cpu"})),
        (DelayedCount(0.5, even_tuples=10), (5.0, {"wait"})),
    ):
        spent.clear()
        counts = run(operator, [rows], key="key").outputs[0].to_pylist()
        assert counts == [{"key": "a", "n": 2}, {"key": "b", "n": 1}]
        assert (sum(seconds for seconds, _ in spent), {kind for _, kind in spent}) == expected


def test_computing_holds_a_core():
    before = time.thread_time()
    spend(0.05, "cpu")
    computed = time.thread_time()
    spend(0.05, "wait")
    assert computed - before >= 0.05
    assert time.thread_time() - computed < 0.02


def test_the_delayed_join_pairs_as_the_join_does(monkeypatch):
    spent = []
    monkeypatch.setattr("unskew.bench.skew.delayed_join.spend", lambda seconds, kind: spent.append(seconds))
    seconds = np.random.default_rng(0).integers(0, 100, 50)
    at = pa.array(seconds * 1_000_000, pa.timestamp("us"))
    rows = pa.table({"key": (seconds % 3).tolist(), "event_time": at, "sequence": list(range(50))})
    ours, plain = (
        run(operator, [rows], key="key").outputs[0].to_pylist()
        for operator in (DelayedJoin(0.1, "5 seconds"), SelfJoin("event_time", "5 seconds", columns=["sequence"]))
    )
    assert ours == plain
    assert spent == [pytest.approx(5.0)]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=40), st.floats(0.1, 5))
def test_latencies_are_those_of_a_queue_followed_row_by_row(seconds, interval):
    free, expected = 0.0, []
    for number, taken in enumerate(seconds):
        arrivals = [interval * (number + (i + 0.5) / 4) for i in range(4)]
        free = max(free, interval * (number + 1)) + taken
        expected.append(sum(free - arrival for arrival in arrivals) / 4)
    assert event_latencies(seconds, interval) == pytest.approx(expected)


@given(st.lists(st.floats(0, 1), min_size=12, max_size=12), st.floats(0, 1))
def test_batches_until_even_counts_from_each_change(overload, limit):
    expected = []
    for start in (0, 4, 8):
        count = 0
        while count < 4 and overload[start + count] > limit:
            count += 1
        expected.append(float(count))
    assert batches_until_even(overload, [0, 4, 8], limit, none=4.0) == expected


def test_rows_say_how_far_everybody_is_from_the_bound():
    stream = shifting(1.0, epochs=1, hold=4)
    contenders = (ROUND_ROBIN, SPARKS_HASH, mixed(0.08))
    results = {
        IDEAL: measured([2.5, 2.5, 2.5, 2.5]),
        HASH: measured([5.0] * 4, [1.0] * 4),
        "Mixed 0.08": measured([5.0, 5.0, 2.5, 2.5], [1.0, 1.0, 0.08, 0.0], moved_bytes=[0, 20, 0, 0]),
    }
    rows = rows_of(stream, contenders, SETUP, results)
    assert values(rows, f"Zipf 1.0: {THROUGHPUT}") == {IDEAL: 1.0, HASH: 0.5, "Mixed 0.08": pytest.approx(2 / 3)}
    assert values(rows, "Zipf 1.0: throughput if a batch had no fixed cost") == {
        IDEAL: 1.0,
        HASH: 0.5,
        "Mixed 0.08": pytest.approx(4 / 6.08),
    }
    assert values(rows, "Zipf 1.0: fixed cost of a batch") == {IDEAL: 0.5}
    assert values(rows, "Zipf 1.0: batches until even again") == {"Mixed 0.08": 2.0}
    assert values(rows, "Zipf 1.0: state moved a batch") == {"Mixed 0.08": pytest.approx(5.0)}
    samples = {row.contender: list(row.samples) for row in rows if row.name == "Zipf 1.0: batch, median"}
    assert samples["Mixed 0.08"] == [5.0, 5.0, 2.5, 2.5]
    judged = {row.name.partition(": ")[2]: row for row in targets(stream, contenders, SETUP, results)}
    assert judged[f"over {HASH}"].value == pytest.approx(4 / 3)
    assert [judged[name].met for name in (f"over {IDEAL}", f"over {HASH}", "batches until even again")] == [
        False,
        False,
        True,
    ]


def test_after_a_resize_batches_count_from_the_first_with_the_new_channel():
    stream = shifting(1.0, epochs=1, hold=6)
    setup = replace(SETUP, channels=9, resize_to=10)
    overload = [0.0, 0.0, 0.9, 0.5, 0.05, 0.0]
    results = {
        IDEAL: measured([1.0] * 6),
        "Mixed 0.1": measured([1.0] * 6, overload, channels=[9, 9, 10, 10, 10, 10]),
    }
    rows = rows_of(stream, (ROUND_ROBIN, mixed(0.1)), setup, results)
    assert values(rows, "Zipf 1.0: batches until even again") == {"Mixed 0.1": 2.0}


def test_of_a_planners_variants_the_best_is_shown():
    stream = shifting(1.0, epochs=1, hold=2)
    variants = [each for each in EVERYBODY if each.name.startswith("readj")]
    results = {IDEAL: measured([1.0, 1.0])} | {
        each.name: measured([taken] * 2) for each, taken in zip(variants, (4.0, 2.0, 8.0), strict=True)
    }
    rows = rows_of(stream, (ROUND_ROBIN, *variants), SETUP, results)
    assert values(rows, f"Zipf 1.0: {THROUGHPUT}") == {IDEAL: 1.0, "readj": 0.5}


def test_split_keys_have_targets_of_their_own():
    results = {IDEAL: measured([1.0]), HASH: measured([3.0]), SPLIT.name: measured([1.02]), PKG.name: measured([2.0])}
    stream = shifting(1.4, epochs=1, hold=1)
    ours, theirs = split_targets(stream, (ROUND_ROBIN, SPARKS_HASH, SPLIT, PKG), results)
    assert (ours.contender, ours.met, theirs.contender, theirs.met) == (SPLIT.name, True, HASH, True)


def test_runs_are_found_again_by_what_ran(tmp_path):
    runs, stream, result = Runs(tmp_path), shifting(1.0, epochs=1, hold=2), measured([1.0, 2.0])
    runs.put(stream, PKG, SETUP, result)
    assert Runs(tmp_path).get(stream, PKG, SETUP) == result
    assert Runs(tmp_path).get(stream, SPLIT, SETUP) is None
    assert Runs(tmp_path).get(stream, PKG, replace(SETUP, work_seconds=3.0)) is None
    assert Runs(tmp_path).get(replace(stream, rows=1), PKG, SETUP) is None
    assert Runs().get(stream, PKG, SETUP) is None


def test_every_part_has_its_bound_and_operators_that_its_contenders_can_use():
    parts = [*quick_parts(), *whole_parts()]
    assert len({part.stream.name for part in parts[2:]}) == len(parts) - 2
    for part in parts:
        names = [contender.name for contender in part.contenders]
        assert len(set(names)) == len(names)
        assert {IDEAL, HASH} <= set(names)
        assert part.stream.work == "count" or not any(contender.merges for contender in part.contenders)


def test_a_whole_run_goes_on_where_it_stopped_and_says_what_it_left_out(tmp_path):
    done, open_part = list(whole_parts())[:2]
    runs = Runs(tmp_path)
    for number, contender in enumerate(done.contenders, start=1):
        runs.put(done.stream, contender, done.setup, measured([float(number)] * 80))
    benchmark = benchmarks["skew"]()
    rows = benchmark.run_parts([done, open_part], runs, seconds=0)
    assert {row.name.partition(":")[0] for row in rows} == {"Zipf 1.0", "Zipf 1.0, best of one owner per key"}
    assert "No time was left for Zipf 1.4." in benchmark.notes[-1]


class ThreeBatches:
    """What a lane needs of a query: it ends by itself after three batches, or fails in the second."""

    def __init__(self, name, diary, then, *, fails=False):
        self.name, self.diary, self.then, self.fails = name, diary, then, fails
        self.problem = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            for batch in range(3):
                if self.fails and batch == 1:
                    raise ValueError("broken")
                self.diary.append((self.name, batch))
                self.then(batch)
        except (ValueError, InterruptedError) as problem:
            self.problem = problem

    @property
    def isActive(self):
        return self.thread.is_alive()

    def awaitTermination(self):
        self.thread.join(60)
        if self.problem is not None:
            raise self.problem

    def stop(self):
        self.thread.join(60)


def test_lanes_run_a_batch_each_in_turn():
    diary = []
    lanes = [Lane(partial(ThreeBatches, name, diary)) for name in "ab"]
    racing = lanes
    while racing:
        racing = [lane for lane in racing if lane.run_batch()]
    assert diary == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert [list(lane.seconds) for lane in lanes] == [[0, 1, 2]] * 2
    assert not any(lane.finish().isActive for lane in lanes)


def test_a_lane_tells_what_broke_and_stops_in_the_middle():
    broken, waiting = (Lane(partial(ThreeBatches, "a", [], fails=fails)) for fails in (True, False))
    assert broken.run_batch()
    assert not broken.run_batch()
    with pytest.raises(ValueError, match="broken"):
        broken.finish()
    assert waiting.run_batch()
    waiting.stop()
    with pytest.raises(InterruptedError):
        waiting.finish()


@pytest.mark.spark
@pytest.mark.slow
def test_a_small_race_counts_who_had_what(spark, tmp_path):
    stream = replace(shifting(1.4, epochs=1, hold=4), warm_up=1, rows=5_000)
    every_batch = {**mixed(0.02).options, "min_gain": -1.0}  # such small ones are not planned otherwise
    contenders = (ROUND_ROBIN, SPARKS_HASH, replace(mixed(0.02), options=every_batch), SPLIT, PKG, SALTING)
    setup = Setup(channels=3, work_seconds=0.01)
    results = race(spark, stream, contenders, setup, Runs(tmp_path))
    assert {len(result.seconds) for result in results.values()} == {4}
    hashed = results[HASH].overload
    assert min(hashed) > 0.1
    assert results["Mixed 0.02"].overload[-1] < min(hashed)
    assert results[PKG.name].overload[-1] < 0.02
    assert results[SALTING.name].overload[-1] < min(hashed)
    assert sum(results["Mixed 0.02"].moved_bytes) > 0
    assert results[HASH].moved_bytes == [0] * 4
    again = race(spark, stream, contenders, setup, Runs(tmp_path))
    assert again == results
