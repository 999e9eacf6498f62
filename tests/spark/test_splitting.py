"""Keys that several channels share, on Spark, beside a batch computation of the same rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sql
from tests.splitters import reference

import unskew
from unskew.errors import ArgumentError
from unskew.hashing import hash_keys
from unskew.testing import write_batches

pytestmark = pytest.mark.spark


def zipf_batches(folder: Path, exponents: list[float], rows: int, keys: int = 2000) -> list[Counter]:
    """Write one file of Zipf keys a batch, and return the true running counts of the keys in each."""
    rng, total, truth, tables = np.random.default_rng(5), Counter(), [], []
    for exponent in exponents:
        shares = np.arange(1, keys + 1) ** -exponent
        drawn = rng.choice(keys, rows, p=shares / shares.sum())
        values = [None if key == 0 else f"k{key}" for key in drawn.tolist()]  # the hottest key is null
        tables.append(pa.table({"key": pa.array(values, pa.string())}))
        seen = Counter(values)
        total.update(seen)
        truth.append({key: total[key] for key in seen})
    write_batches(folder, tables, row_group_size=rows // 4)
    return truth


def files_in(folder: Path) -> list[pa.Table]:
    """Return the batches as they were written."""
    return [pq.read_table(file) for file in sorted(folder.glob("*.parquet"))]


def run(spark, folder: Path, checkpoint: Path, **options):
    """Count keys; return each batch's rows, how far the fullest channel was above the mean, and the query."""
    events = spark.readStream.schema("key string").option("maxFilesPerTrigger", 1).parquet(str(folder))
    outputs = {}

    def sink(rows, batch_id: int) -> None:
        collected = rows.collect()
        outputs[batch_id] = {row.key: row.n for row in collected}
        assert len(outputs[batch_id]) == len(collected), "one row per key"

    query = (
        unskew.balance(events, "key", **options)
        .aggregate(n="count")
        .writeStream.option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()
    imbalance = [max(figures.channel_rows) / np.mean(figures.channel_rows) for figures in query.figures]
    return [outputs[batch] for batch in sorted(outputs)], imbalance, query


def test_hot_keys_are_split_while_they_are_hot_and_totals_stay_exact(spark, tmp_path: Path) -> None:
    truth = zipf_batches(tmp_path / "data", [1.4, 1.4, 0.3, 0.3, 0.3], rows=8000)
    ours, imbalance, query = run(spark, tmp_path / "data", tmp_path / "ours", channels=4, tolerance=0.02, split="auto")
    assert ours == truth
    assert max(imbalance[:2]) < 1.05, "from the first batch on"
    assert query.figures[0].split_keys > 0
    assert not query.routing_table.split, "whole again"
    home = [move for _, move in query.moves if move.kind == "key"]
    assert len(home) >= 3, "parts of a key that cooled down went home"


@pytest.mark.slow
def test_parts_of_a_split_key_unite_their_different_values(spark, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    keys = [np.where(rng.random(4000) < share, "hot", rng.choice(["a", "b", "c"], 4000)) for share in (0.9, 0.9, 0.1)]
    tables = [pa.table({"key": pa.array(key), "value": rng.integers(0, 900, len(key))}) for key in keys]
    write_batches(tmp_path / "data", tables, row_group_size=1000)
    schema, last = "key string, value long", {}
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "data"))
    texts = {"n": "count_distinct(value)", "m": "median(value)", "p": "percentile_approx(value, 0.9)"}
    query = (
        unskew.balance(events, "key", channels=3, tolerance=0.02, split="auto")
        .aggregate(**texts, some="collect_set(value, 5)")
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .foreachBatch(lambda rows, _: last.update({row.key: row.asDict() for row in rows.collect()}))
        .start()
    )
    query.awaitTermination()
    assert query.figures[0].split_keys > 0
    assert any(move.kind == "key" for _, move in query.moves), "the key became whole again"
    whole = spark.read.schema(schema).parquet(str(tmp_path / "data")).coalesce(1).groupBy("key")
    native = whole.agg(
        sql.count_distinct("value").alias("n"),
        sql.slice(sql.sort_array(sql.collect_set("value")), 1, 5).alias("some"),
    ).join(whole.agg(*(sql.expr(text).alias(name) for name, text in texts.items() if name != "n")), "key")
    assert last == {row.key: row.asDict() for row in native.select("key", *texts, "some").collect()}


@pytest.mark.parametrize("scheme", ["pkg", "d-choices", pytest.param("shuffle", marks=pytest.mark.slow)])
def test_whole_streams_under_a_scheme_give_the_same_totals(spark, tmp_path: Path, scheme: str) -> None:
    truth = zipf_batches(tmp_path / "data", [1.4, 1.4, 1.4], rows=8000)
    ours, imbalance, query = run(spark, tmp_path / "data", tmp_path / "ours", channels=4, split=scheme)
    assert ours == truth
    assert query.routing_table.version == 0, "no table entry"
    if scheme == "pkg":
        for figures, keys in zip(query.figures, files_in(tmp_path / "data"), strict=True):
            workers = reference.greedy(hash_keys(keys, "key").tolist(), [0] * 4, choices=2)
            assert list(figures.channel_rows) == np.bincount(workers, minlength=4).tolist(), "as the paper draws them"
    else:
        assert imbalance[-1] < 1.02


@pytest.mark.slow
def test_twenty_channels_are_even_where_no_owner_per_key_can_be(spark, tmp_path: Path) -> None:
    truth = zipf_batches(tmp_path / "data", [1.4] * 6, rows=200_000, keys=100_000)
    options = {"channels": 20, "tolerance": 0.02}
    whole, best, _ = run(spark, tmp_path / "data", tmp_path / "whole", **options)
    split, even, query = run(spark, tmp_path / "data", tmp_path / "split", split="auto", **options)
    assert whole == split == truth
    print(f"max/mean with one owner per key {best}, with split keys {even}, {len(query.routing_table.split)} split")
    top_share = max(truth[0].values()) / 200_000
    assert min(best) > 0.95 * top_share * 20
    assert max(even) <= 1.05


def test_operators_that_cannot_merge_are_refused(spark, tmp_path: Path) -> None:
    events = spark.readStream.schema("key string").parquet(str(tmp_path))
    balanced = unskew.balance(events, "key", split="auto")
    with pytest.raises(ArgumentError, match="cannot merge"):
        balanced.apply_per_key(lambda key, rows, state: (state, []), "n long", "n long")
    with pytest.raises(ArgumentError, match="cannot merge"):
        balanced.aggregate(latest="last(key)")
    with pytest.raises(ArgumentError, match="no scheme of that name"):
        unskew.balance(events, "key", split="sideways")
