"""What split keys cost on Spark: the same running count with and without them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame

import unskew
from unskew.spark import session
from unskew_lab.bench.harness import Row
from unskew_lab.bench.streams import batch_seconds, discard, write_files

CHANNELS = 4
WITHOUT, SPLIT = "one owner per key", "split keys"
SCHEMES = ("pkg", "d-choices")


def split_stream_rows(quick: bool) -> list[Row]:
    """Return the batch time of a count over Zipf 1.4 keys with split keys, and under schemes, over that without."""
    rows, rounds = (50_000, 1) if quick else (500_000, 3)
    contenders = {WITHOUT: _count(None), SPLIT: _count("auto")} | {name: _count(name) for name in SCHEMES}
    spark = session(master="local[2,4]")
    try:
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
            write_files(Path(home), batches=9, rows=rows, keys=100_000, exponent=1.4)
            times = batch_seconds(spark, Path(home), contenders, rounds=rounds, skipped=3)
    finally:
        spark.stop()
    seconds = {name: median(of) for name, of in times.items()}
    name = f"count on Spark, {rows:,} rows a batch"
    targets = {SPLIT: 1.15}
    return [
        *(
            Row(
                f"{name}: batch time over {WITHOUT}",
                who,
                seconds[who] / seconds[WITHOUT],
                "x",
                target=targets.get(who),
                better="lower",
            )
            for who in (SPLIT, *SCHEMES)
        ),
        *(Row(name, who, value, "s", better="lower", samples=times[who]) for who, value in seconds.items()),
    ]


def _count(split: str | None) -> Callable[[DataFrame, str], Any]:
    def start(events: DataFrame, checkpoint: str) -> Any:
        counts = unskew.balance(events, "key", channels=CHANNELS, split=split).aggregate(n="count")
        writer = counts.writeStream.option("checkpointLocation", checkpoint)
        return writer.foreachBatch(discard).trigger(availableNow=True).start()

    return start
