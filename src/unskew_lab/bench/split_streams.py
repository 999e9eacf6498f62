"""What split keys cost on Spark: the same running count with and without them."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any

from pyspark.sql import DataFrame

import unskew
from unskew_lab.bench.harness import Row
from unskew_lab.bench.streams import batch_seconds, start, temporary_folder, temporary_session, write_files

CHANNELS = 4
WITHOUT, SPLIT = "one owner per key", "split keys"
SCHEMES = ("pkg", "d-choices")


def split_stream_rows(quick: bool) -> list[Row]:
    """Return the batch time of a count over Zipf 1.4 keys with split keys, and under schemes, over that without."""
    rows, rounds = (50_000, 1) if quick else (500_000, 3)
    contenders = {WITHOUT: _count(None), SPLIT: _count("auto")} | {name: _count(name) for name in SCHEMES}
    with temporary_session("local[2,4]") as spark, temporary_folder() as home:
        write_files(home, batches=9, rows=rows, keys=100_000, exponent=1.4)
        times = batch_seconds(spark, home, contenders, rounds=rounds, skipped=3)
    seconds = {name: median(of) for name, of in times.items()}
    over = {who: seconds[who] / seconds[WITHOUT] for who in (SPLIT, *SCHEMES)}
    name, target = f"count on Spark, {rows:,} rows a batch", {SPLIT: 1.15}
    return [
        *(
            Row(f"{name}: batch time over {WITHOUT}", who, ratio, "x", target=target.get(who), better="lower")
            for who, ratio in over.items()
        ),
        *(Row(name, who, value, "s", better="lower", samples=times[who]) for who, value in seconds.items()),
    ]


def _count(split: str | None) -> Callable[[DataFrame, str], Any]:
    def count(events: DataFrame, checkpoint: str) -> Any:
        return start(unskew.balance(events, "key", channels=CHANNELS, split=split).aggregate(n="count"), checkpoint)

    return count
