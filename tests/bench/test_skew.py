from __future__ import annotations

from types import SimpleNamespace

import pytest

from unskew.runtime.figures import HotKey
from unskew_lab.bench import benchmarks
from unskew_lab.bench.skew import (
    COMPUTING,
    FASTER,
    FULLEST,
    WAITING,
    Balance,
    Work,
    beside_native,
    fullest,
    fullest_rows,
)
from unskew_lab.report import headline


@pytest.fixture
def partitions(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def figures(imbalance, under_hash, share, rows=100):
    hot = (HotKey("a", share, 0),)
    return SimpleNamespace(rows=rows, channels=10, imbalance=imbalance, hash_imbalance=under_hash, hot_keys=hot)


def test_the_worst_batch_counts_and_a_heavy_key_is_nobodys_fault():
    batches = [figures(1.02, 1.8, 0.05), figures(3.3, 3.6, 0.3), figures(1.0, 1.0, 0.0, rows=0)]
    ours, theirs = fullest_rows("Zipf 1.0", batches, target=1.03)
    assert (ours.contender, ours.value, ours.met) == ("unskew", pytest.approx(1.1), False)
    assert ours.samples == pytest.approx([1.02, 1.1])
    assert (theirs.contender, theirs.value, theirs.met) == ("Spark's hash", pytest.approx(1.8), None)


def test_without_a_count_nothing_is_said_of_the_hash():
    [ours] = fullest_rows("Zipf 1.0", [figures(1.01, None, 0.05)], target=1.03)
    assert ours.met


def test_the_page_finds_rows_by_the_names_that_the_benchmark_gives_them():
    assert (FASTER, FULLEST, WAITING.name) == (headline.FASTER, headline.FULLEST, headline.WAITING)


def test_targets_are_those_promised():
    assert "skew" in benchmarks
    assert (WAITING.faster_target, WAITING.p95_target, COMPUTING.faster_target) == (1.8, 1.15, 1.0)


@pytest.mark.spark
@pytest.mark.slow
def test_native_and_unskew_run_the_same_batches_and_give_the_same_sums(spark, tmp_path, partitions):
    work = Work("tiny", "wait", 1e-6, channels=2, threads=2, faster_target=1.0, p95_target=1.15, rows=200)
    rows = {(row.name, row.contender): row for row in beside_native(spark, tmp_path, work, warm_up=1, turns=2)}
    medians = [rows["tiny: batch, median", who] for who in ("native", "unskew")]
    assert [len(row.samples) for row in medians] == [2, 2]
    ratio = rows[f"tiny: {FASTER}", "unskew"]
    assert ratio.value == pytest.approx(medians[0].value / medians[1].value)
    assert ratio.met == (ratio.value >= 1.0)
    assert rows["tiny: batch, 95 % over the median", "unskew"].value >= 1.0


@pytest.mark.spark
@pytest.mark.slow
def test_channels_are_even_from_the_first_batch_on(spark, tmp_path):
    ours, theirs = fullest(spark, tmp_path, 1.0, Balance((1.0,), rows=200_000), batches=2)
    assert ours.met
    assert len(ours.samples) == 2
    assert theirs.value > 1.5
