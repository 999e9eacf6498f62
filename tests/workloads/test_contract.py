"""What every workload promises, checked alike for all of them."""

import hashlib
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

from unskew.errors import ArgumentError
from unskew.workloads import WORKLOADS, Workload, workload
from unskew.workloads.base import Drift, Seeded

NAMES = sorted(WORKLOADS)
REAL = {"words", "flights"}
SMALL = [name for name in NAMES if name not in REAL and (workload(name).domain or 0) <= 1_000_000]


def digest(name: str) -> str:
    chosen = workload(name, seed=3) if name not in REAL else workload(name)
    rows = pa.Table.from_batches([chosen.rows(interval, 500) for interval in (4, 1)])
    return hashlib.sha256(repr(rows.to_pylist()).encode()).hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_random_access_equals_reading_in_order(name: str) -> None:
    in_order = [workload(name).rows(interval, 200) for interval in range(6)]
    backwards = [workload(name).rows(interval, 200) for interval in reversed(range(6))]
    assert [batch.to_pylist() for batch in in_order] == [batch.to_pylist() for batch in reversed(backwards)]


@pytest.mark.parametrize("name", NAMES)
def test_partitions_make_up_the_interval(name: str) -> None:
    chosen = workload(name)
    whole = pa.Table.from_batches([chosen.rows(2, 1001)])
    parts = pa.Table.from_batches([chosen.rows(2, 1001, partition, 7) for partition in range(7)])
    assert parts.equals(whole)
    assert chosen.keys(2, 1001, 3, 7).tolist() == chosen.keys(2, 1001)[1001 * 3 // 7 : 1001 * 4 // 7].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_columns(name: str) -> None:
    chosen = workload(name)
    first, second = chosen.rows(0, 300), chosen.rows(1, 300)
    assert first.schema == chosen.schema == chosen.rows(0, 0).schema
    assert {"key", "event_time", "value", "sequence"} <= set(first.schema.names)
    assert first["key"].equals(chosen.names(chosen.keys(0, 300)))
    times = pa.chunked_array([first["event_time"], second["event_time"]]).cast(pa.int64()).to_numpy()
    assert (np.diff(times) >= 0).all()
    assert [*first["sequence"].to_pylist(), *second["sequence"].to_pylist()] == list(range(600))
    exact = first["value"].to_numpy() * 64
    assert (exact == np.floor(exact)).all()
    ids = chosen.keys(0, 300)
    assert ids.min() >= 0
    assert chosen.domain is None or ids.max() < chosen.domain


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("interval", [0, 17])
def test_draws_follow_the_stated_probabilities(name: str, interval: int) -> None:
    chosen = workload(name, seed=1)
    law = chosen.probabilities(interval)
    assert law is not None
    assert law.min() >= 0
    assert law.sum() == pytest.approx(1, abs=2e-7)
    rows = 200_000
    met = np.bincount(np.minimum(chosen.keys(interval, rows), law.size - 1), minlength=law.size)
    hottest_first = np.argsort(-law, kind="stable")
    bins = np.minimum(np.cumsum(law[hottest_first]) * 100, 99.999).astype(
        int
    )  # a hundredth of the rows each, or one key
    expected = np.bincount(bins, weights=law[hottest_first]) * rows
    counted = np.bincount(bins, weights=met[hottest_first])
    used = expected > 0
    assert chisquare(counted[used], expected[used] * rows / expected.sum()).pvalue > 1e-5


@pytest.mark.parametrize("name", [name for name in NAMES if name not in REAL])
def test_seeds_give_other_streams(name: str) -> None:
    assert workload(name, seed=1).keys(0, 200).tolist() != workload(name, seed=2).keys(0, 200).tolist()


@pytest.mark.parametrize("name", NAMES)
def test_is_a_value(name: str) -> None:
    chosen = workload(name)
    assert chosen == workload(name)
    chosen.rows(1, 10)
    again = pickle.loads(pickle.dumps(chosen))
    assert again == chosen
    assert hash(again) == hash(chosen)
    assert len(pickle.dumps(chosen)) < 2_000
    with pytest.raises(FrozenInstanceError):
        chosen.seed = 5  # type: ignore[misc]
    assert workload(name).summary().endswith(".")


def test_another_process_draws_the_same() -> None:
    names = [name for name in NAMES if name != "flights"]
    script = "import sys; from test_contract import digest; print(*map(digest, sys.argv[1:]))"
    environment = {"PYTHONHASHSEED": "77", "PYTHONPATH": str(__file__).rpartition("/")[0], "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-c", script, *names]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    assert printed.split() == [digest(name) for name in names]


def test_a_newcomer_registers_itself() -> None:
    class Alternating(Seeded, name="alternating-for-a-test"):
        def draw(self, span):  # type: ignore[no-untyped-def]
            return span.sequence() % 2

    try:
        assert workload("alternating-for-a-test").keys(1, 5).tolist() == [1, 0, 1, 0, 1]
    finally:
        del WORKLOADS._members["alternating-for-a-test"]


@pytest.mark.parametrize("name", NAMES)
def test_wrong_places_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        workload(name).rows(-1, 10)
    with pytest.raises(ArgumentError):
        workload(name).keys(0, 10, partition=2, partitions=2)


def test_drifts_do_not_share_random_numbers_with_their_base() -> None:
    inner = workload("hot-key", keys=1000, share=0.5, every_intervals=1, lasts_intervals=1)
    outer = workload("hot-key", base=inner, share=0.5, every_intervals=1, lasts_intervals=1)
    assert isinstance(inner, Drift)
    assert isinstance(outer, Drift)
    assert outer.stream != inner.stream
    law = outer.probabilities(0)
    assert law is not None
    assert sorted(law, reverse=True)[:2] == pytest.approx([0.5, 0.25], abs=0.05)
    met = np.bincount(outer.keys(0, 100_000), minlength=1000) / 100_000
    assert np.abs(met - law).max() < 0.01


def test_pyspark_is_not_imported_for_a_workload() -> None:
    script = "import sys; from unskew.workloads import workload; workload('zipf'); assert 'pyspark' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_base_is_abstract() -> None:
    with pytest.raises(TypeError):
        Workload()  # type: ignore[abstract]
