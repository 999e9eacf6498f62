"""Self-joins as whole queries: what it brings to look at the time window alone, and what to share out pairs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import unskew
from unskew.operators import SelfJoin
from unskew.spark.stage import Stage
from unskew_lab.bench.harness import Row
from unskew_lab.bench.operator_queries import NATIVE, OURS, Query, side_by_side, started, write_rows
from unskew_lab.bench.operator_subjects import ROWS_PER_KEY, SHAPES
from unskew_lab.bench.streams import Start, settings, temporary_folder, temporary_session

CHANNELS = 8
SALTS, HOT_KEYS = 3, 3
DELAY = "1 minute"
UNIFORM, SKEWED = SHAPES
HASHED, BY_TIME = "unskew by hash alone", "Spark's own, state by time"
STATE_FORMAT = "spark.sql.streaming.join.stateFormatVersion"

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Case:
    """A self-join on a stream of files."""

    shape: str  # one of `SHAPES`
    # rows, batches: of the stream
    rows: int
    batches: int
    within: str  # how far apart the rows of a pair may be
    # how long a pair takes. Whoever waits needs no core, so that all channels work side by side, as they would on as
    # many machines.
    pair_seconds: float = 0.0
    targets: Mapping[str, float] = field(default_factory=dict)  # how many times faster than others ours should be
    contenders: Sequence[str] = (HASHED, NATIVE)  # who takes part besides ours

    @property
    def name(self) -> str:
        cost = f"each {self.pair_seconds * 1e6:.0f} us" if self.pair_seconds else "for nothing"
        return f"self-join, pairs within {self.within}, {cost}, {self.shape}, {self.rows:,} rows a batch"


FEW_ROWS = Case(SKEWED, 1_500, 4, "4 seconds")
COSTLY = Case(SKEWED, 1_500, 4, "4 seconds", pair_seconds=500e-6, targets={NATIVE: 2.0})
MANY_ROWS = Case(SKEWED, 5_000, 4, "20 milliseconds", contenders=(HASHED, NATIVE, BY_TIME))
EVEN = Case(UNIFORM, 50_000, 6, "20 milliseconds", targets={NATIVE: 0.5}, contenders=(NATIVE, BY_TIME))

CASES = (EVEN, MANY_ROWS, FEW_ROWS, COSTLY)
# few rows and costly pairs show who shares out pairs; many rows and few pairs, who finds them
QUICK_CASES = (replace(COSTLY, batches=3, pair_seconds=250e-6), replace(FEW_ROWS, batches=2, contenders=(NATIVE,)))


def pairs(cases: Sequence[Case]) -> list[Row]:
    """Compare batches of joins on eight channels."""
    results = []
    with (
        temporary_session(f"local[{CHANNELS},4]", {"spark.sql.shuffle.partitions": str(CHANNELS)}) as spark,
        temporary_folder() as home,
    ):
        for number, case in enumerate(cases):
            folder = home / str(number)
            write_rows(folder, [case.rows] * case.batches, SHAPES[case.shape])
            every = contenders(case)
            chosen = {who: every[who] for who in (OURS, *case.contenders)}
            results += side_by_side(spark, folder, case.name, chosen, skipped=case.batches // 2, targets=case.targets)
    return results


def contenders(case: Case) -> dict[str, Start]:
    """Return all who can do it: ours with hot keys in cells, ours with keys where the hash puts them, Spark's two."""
    ours = partial(in_cells, case=case) if SHAPES[case.shape] else partial(whole, case=case)
    by_hash = partial(whole, case=case, min_gain=math.inf)
    native = partial(native_join, case=case)
    return {
        OURS: started("append", ours),
        HASHED: started("append", by_hash),
        NATIVE: started("append", native),
        BY_TIME: by_time(native),
    }


def hottest_keys(rows: int) -> list[str]:
    """Return the names of the keys that have most of the pairs."""
    first = np.random.default_rng(0).permutation(rows // ROWS_PER_KEY)[:HOT_KEYS]
    return [f"k{number}" for number in first]


def in_cells(events: DataFrame, case: Case) -> Stage:
    """Return our join; rows of hot keys go to each cell in which they may lead or follow (see the gallery)."""
    is_hot = sql.col("key").isin(hottest_keys(case.rows))
    salt = sql.when(is_hot, sql.pmod(sql.xxhash64("ts", "value"), sql.lit(SALTS))).otherwise(0)
    mine = sql.expr(f"filter(sequence(0L, {SALTS**2 - 1}L), c -> salt IN (c DIV {SALTS}, c % {SALTS}))")
    cells = (
        events.withWatermark("ts", DELAY)
        .withColumn("salt", salt)
        .withColumn("cell", sql.explode(sql.when(is_hot, mine).otherwise(sql.expr("array(0L)"))))
        .selectExpr("*", f"cell DIV {SALTS} = salt AS leads", f"cell % {SALTS} = salt AS follows")
    )
    join = _join(case, sides=["leads", "follows"])
    return unskew.balance(cells, ["key", "cell"], channels=CHANNELS).apply(join)


def whole(events: DataFrame, case: Case, **options: Any) -> Stage:
    """Return our join, each key in one piece."""
    return unskew.balance(events.withWatermark("ts", DELAY), "key", channels=CHANNELS, **options).apply(_join(case))


def native_join(events: DataFrame, case: Case) -> DataFrame:
    """Return Spark's stream-stream join of the same rows, with the same cost."""
    rows = events.withWatermark("ts", DELAY)
    near = sql.expr(f"l.key = r.key AND r.ts > l.ts AND r.ts <= l.ts + INTERVAL {case.within}")
    found = rows.alias("l").join(rows.alias("r"), near)
    found = found.selectExpr("l.key", "l.value AS value", "l.ts AS ts", "r.value AS other", "r.ts AS later")
    return found.mapInArrow(waiting(case.pair_seconds), found.schema) if case.pair_seconds else found


def by_time(query: Query) -> Start:
    """Return a contender with the layout of a join's state that Spark can search by time; it has to be asked for it."""

    def start(events: DataFrame, checkpoint: str) -> Any:
        with settings(events.sparkSession, {STATE_FORMAT: "4"}):
            return started("append", query)(events, checkpoint)

    return start


def waiting(seconds: float) -> Callable[[Batches], Batches]:
    """Return a function that passes rows on after a time for each."""

    def wait(batches: Batches) -> Batches:
        for batch in batches:
            time.sleep(seconds * batch.num_rows)
            yield batch

    return wait


def _join(case: Case, sides: Sequence[str] | None = None) -> SelfJoin:
    return SelfJoin(
        "ts",
        case.within,
        columns=["value", "ts"],
        where="left_ts < right_ts",
        sides=sides,
        pair_seconds=case.pair_seconds,
    )
