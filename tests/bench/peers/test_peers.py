from __future__ import annotations

import dataclasses
import sys

import pytest

from unskew.errors import StateError
from unskew_lab.bench.peers import PeersBenchmark, benchmark
from unskew_lab.bench.peers.benchmark import PEERS, check, expected_totals
from unskew_lab.bench.peers.peer import Peer
from unskew_lab.bench.streams import write_files


@pytest.fixture
def folder(tmp_path):
    write_files(tmp_path / "rows", batches=3, rows=500, keys=40)
    return tmp_path / "rows"


def slow_totals(folder):
    import pyarrow.parquet as pq

    totals = {}
    for path in folder.glob("*.parquet"):
        for row in pq.read_table(path).to_pylist():
            n, total = totals.get(row["key"], (0, 0.0))
            totals[row["key"]] = (n + 1, total + row["value"])
    return totals


def test_expected_totals_are_those_of_a_plain_loop(folder):
    expected, slow = expected_totals(folder), slow_totals(folder)
    assert {key: n for key, (n, _) in expected.items()} == {key: n for key, (n, _) in slow.items()}
    assert all(expected[key][1] == pytest.approx(total) for key, (_, total) in slow.items())


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.filterwarnings("default")  # theirs are not ours to mend
def test_every_peer_that_is_here_counts_right(peer, folder):
    if peer.missing():
        pytest.skip(peer.missing())
    check(peer, folder)


def test_a_peer_that_counts_wrong_is_found(folder):
    totals = slow_totals(folder)
    right = Peer("right", lambda folder: totals, lambda: None)
    check(right, folder)
    key = next(iter(totals))
    for wrong in ({**totals, key: (totals[key][0] + 1, totals[key][1])}, {**totals, "more": (1, 1.0)}):
        with pytest.raises(StateError, match="not those of the rows"):
            check(dataclasses.replace(right, run=lambda folder, wrong=wrong: wrong), folder)


def test_who_is_missing_is_noted(folder, monkeypatch):
    absent = Peer("Absent", lambda folder: {}, lambda: "It is not installed.")
    present = Peer("Present", slow_totals, lambda: None)
    monkeypatch.setattr(benchmark, "PEERS", (absent, present))
    bench = PeersBenchmark()
    speeds = dict(bench._in_one_process(folder, rows=1500, repeats=2))
    assert list(speeds) == ["Present"]
    assert len(speeds["Present"]) == 2
    assert bench.notes == ["Not measured: Absent. It is not installed."]


def test_flink_is_missing_without_an_interpreter_that_has_it(monkeypatch):
    from unskew_lab.bench.peers import flink_state

    monkeypatch.delenv(flink_state.VARIABLE, raising=False)
    monkeypatch.setitem(sys.modules, "pyflink", None)
    monkeypatch.setattr(flink_state.importlib.util, "find_spec", lambda name: None)
    assert flink_state.VARIABLE in flink_state.missing()
    monkeypatch.setenv(flink_state.VARIABLE, "/some/python")
    assert flink_state.missing() is None


@pytest.mark.slow
@pytest.mark.spark
def test_transform_with_state_gives_the_last_sums(spark, folder, tmp_path):
    from unskew_lab.bench.peers.spark_state import transform_with_state
    from unskew_lab.bench.streams import NATIVE_STATE, read_files

    given = {}

    def take(rows, batch_id):
        given.update({row.key: (row.n, row.total) for row in rows.collect()})

    for name, value in NATIVE_STATE.items():
        spark.conf.set(name, value)
    try:
        transform_with_state(read_files(spark, folder), str(tmp_path / "checkpoint"), take).awaitTermination()
    finally:
        for name in NATIVE_STATE:
            spark.conf.unset(name)
    assert given == {key: (n, pytest.approx(total)) for key, (n, total) in slow_totals(folder).items()}


@pytest.mark.slow
@pytest.mark.spark
def test_joins_agree_with_a_plain_loop(spark, folder, tmp_path):
    from unskew_lab.bench.peers.skew_join import VERSIONS, joins, write_table

    write_table(tmp_path / "table", keys=40)
    weights = sum(range(VERSIONS))
    expected = weights * sum(total for _, total in slow_totals(folder).values())
    before = spark.conf.get("spark.sql.shuffle.partitions")
    for join in joins(spark, folder, tmp_path / "table").values():
        assert join() == pytest.approx(expected)
    assert spark.conf.get("spark.sql.shuffle.partitions") == before
