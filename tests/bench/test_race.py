from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.operators.self_join import SelfJoin
from unskew.testing import run
from unskew_lab.bench import benchmarks
from unskew_lab.bench.race.contenders import (
    EVERYBODY,
    HASH,
    IDEAL,
    PKG,
    ROUND_ROBIN,
    SALTING,
    SPARKS_HASH,
    SPLIT,
    mixed,
)
from unskew_lab.bench.race.delayed_count import DelayedCount
from unskew_lab.bench.race.delayed_join import DelayedJoin
from unskew_lab.bench.race.measures import Measured, batches_until_even, event_latencies
from unskew_lab.bench.race.parts import quick_parts, whole_parts
from unskew_lab.bench.race.race import Runs, Setup, race
from unskew_lab.bench.race.rows import THROUGHPUT, rows_of
from unskew_lab.bench.race.streams import KEYS, shifting

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
    assert "race" in benchmarks


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
    monkeypatch.setattr("unskew_lab.bench.race.delayed_count.spend", lambda seconds, kind: spent.append(seconds))
    rows = pa.table({"key": ["a", "b", "a"]})
    for operator, expected in (
        (DelayedCount(0.5), 1.5),
        (DelayedCount(0.5, "worker"), 1.5),
        (DelayedCount(0.5, even_tuples=10), 5.0),
    ):
        spent.clear()
        counts = run(operator, [rows], key="key").outputs[0].to_pylist()
        assert counts == [{"key": "a", "n": 2}, {"key": "b", "n": 1}]
        assert sum(spent) == expected


def test_the_delayed_join_pairs_as_the_join_does(monkeypatch):
    spent = []
    monkeypatch.setattr("unskew_lab.bench.race.delayed_join.spend", lambda seconds, kind: spent.append(seconds))
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
    assert len({part.stream.name for part in whole_parts()}) == len(parts) - 1
    for part in parts:
        names = [contender.name for contender in part.contenders]
        assert len(set(names)) == len(names)
        assert {IDEAL, HASH} <= set(names)
        assert part.stream.work == "count" or not any(c.salted or "split" in c.options for c in part.contenders)


def test_a_whole_run_goes_on_where_it_stopped_and_says_what_it_left_out(tmp_path):
    done, open_part = list(whole_parts())[:2]
    runs = Runs(tmp_path)
    for number, contender in enumerate(done.contenders, start=1):
        runs.put(done.stream, contender, done.setup, measured([float(number)] * 80))
    benchmark = benchmarks["race"]()
    rows = benchmark.run_parts([done, open_part], runs, seconds=0)
    assert {row.name.partition(":")[0] for row in rows} == {"Zipf 1.0"}
    assert "No time was left for Zipf 1.4." in benchmark.notes[-1]


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
