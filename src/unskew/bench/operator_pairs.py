"""A self-join in which every pair costs: Spark's own join, and ours with hot keys cut into cells."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import unskew
from unskew.bench.harness import Row
from unskew.bench.operator_queries import NATIVE, OURS, side_by_side, started, write_batches
from unskew.bench.operator_subjects import ROWS_PER_KEY, SHAPES
from unskew.operators import SelfJoin
from unskew.spark import session
from unskew.spark.stage import Stage

CHANNELS = 8
SALTS, HOT_KEYS = 3, 3
WITHIN, DELAY = "20 milliseconds", "1 minute"
TARGETS = {"uniform": 0.5, "Zipf 1.2": 2.0}

Batches = Iterator[pa.RecordBatch]


def pairs(rows: int, batches: int, pair_seconds: float, shapes: Collection[str] = tuple(SHAPES)) -> list[Row]:
    """Compare batches of both joins, on eight channels that wait for each pair.

    Whoever waits needs no core, so that all channels work side by side, as they would on as many machines.

    Parameters
    ----------
    rows, batches
        Of the stream.
    pair_seconds
        How long a pair takes.
    shapes
        Which of `SHAPES` to try.
    """
    results = []
    spark = session(master=f"local[{CHANNELS},4]", config={"spark.sql.shuffle.partitions": str(CHANNELS)})
    try:
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
            for shape in shapes:
                folder, exponent = Path(home) / shape, SHAPES[shape]
                write_batches(folder, batches, rows, exponent)
                hot = hottest_keys(rows) if exponent else []
                contenders = {
                    OURS: started("append", partial(in_cells, hot=hot, pair_seconds=pair_seconds)),
                    NATIVE: started("append", partial(native_join, pair_seconds=pair_seconds)),
                }
                name = f"self-join, each pair {pair_seconds * 1e6:.0f} us, {shape}, {rows:,} rows a batch"
                results += side_by_side(
                    spark, folder, name, contenders, skipped=min(3, batches // 2), target=TARGETS[shape]
                )
    finally:
        spark.stop()
    return results


def hottest_keys(rows: int) -> list[str]:
    """Return the names of the keys that have most of the pairs."""
    first = np.random.default_rng(0).permutation(rows // ROWS_PER_KEY)[:HOT_KEYS]
    return [f"k{number}" for number in first]


def in_cells(events: DataFrame, hot: list[str], pair_seconds: float) -> Stage:
    """Return our join; rows of hot keys go to each cell in which they may lead or follow (see the gallery)."""
    is_hot = sql.col("key").isin(hot) if hot else sql.lit(False)
    salt = sql.when(is_hot, sql.pmod(sql.xxhash64("ts", "value"), sql.lit(SALTS))).otherwise(0)
    mine = sql.expr(f"filter(sequence(0L, {SALTS**2 - 1}L), c -> salt IN (c DIV {SALTS}, c % {SALTS}))")
    cells = (
        events.withWatermark("ts", DELAY)
        .withColumn("salt", salt)
        .withColumn("cell", sql.explode(sql.when(is_hot, mine).otherwise(sql.expr("array(0L)"))))
        .selectExpr("*", f"cell DIV {SALTS} = salt AS leads", f"cell % {SALTS} = salt AS follows")
    )
    join = SelfJoin(
        "ts",
        WITHIN,
        columns=["value", "ts"],
        where="left_ts < right_ts",
        sides=["leads", "follows"],
        pair_seconds=pair_seconds,
    )
    return unskew.balance(cells, ["key", "cell"], channels=CHANNELS).apply(join)


def native_join(events: DataFrame, pair_seconds: float) -> DataFrame:
    """Return Spark's stream-stream join of the same rows, with the same cost."""
    rows = events.withWatermark("ts", DELAY)
    near = sql.expr(f"l.key = r.key AND r.ts > l.ts AND r.ts <= l.ts + INTERVAL {WITHIN}")
    found = rows.alias("l").join(rows.alias("r"), near)
    found = found.selectExpr("l.key", "l.value AS value", "l.ts AS ts", "r.value AS other", "r.ts AS later")
    return found.mapInArrow(waiting(pair_seconds), found.schema)


def waiting(seconds: float) -> Callable[[Batches], Batches]:
    """Return a function that passes rows on after a time for each."""

    def wait(batches: Batches) -> Batches:
        for batch in batches:
            time.sleep(seconds * batch.num_rows)
            yield batch

    return wait
