"""What a migration costs while the query runs: batches in which state moves, beside quiet ones of the same query."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import unskew
from unskew.bench.harness import Benchmark, Row
from unskew.bench.streams import discard, read_files, write_file
from unskew.planners import Assignment, Memory, Planner, Problem
from unskew.routing.table import RoutingTable
from unskew.spark import session

CHANNELS = 4
MOVED_SHARE = 0.05
PERIOD = 4


@dataclass(frozen=True)
class MoveAShare(Planner):
    """Gives a share of the slots to the next channel, whatever the load."""

    tolerance: float = 0.0
    share: float = MOVED_SHARE

    def slots(self, table: RoutingTable, channels: int) -> NDArray[np.int32]:
        """Return the slots with a share of them moved on, another one each time."""
        drawn = np.random.default_rng(table.version).random(len(table.slots)) < self.share
        return np.where(drawn, (table.slots + 1) % channels, table.slots).astype(np.int32)

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        """Send every key home."""
        return Assignment(problem.home, memory=memory)


class MigrationBenchmark(Benchmark):
    """Move 5 % of the state every few batches, and compare these batches with the quiet ones between them.

    State moves within one batch, together with its rows. All batches are planned ahead and run as one job, so that
    nothing but the move tells them apart. The interval is a bootstrap of the ratio of medians.
    """

    name: ClassVar[str] = "migration"
    summary: ClassVar[str] = "batch time while state moves, beside quiet batches of the same query"

    def run(self, quick: bool) -> list[Row]:
        """Measure; quickly, on fewer keys and batches."""
        keys, rows, batches = (50_000, 50_000, 24) if quick else (500_000, 300_000, 64)
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as home:
            quiet, moving, share = _run(Path(home), keys, rows, batches)
        low, ratio, high = ratio_of_medians(moving, quiet)
        name = f"batch time while {share:.1%} of the state moves over quiet batches"
        return [
            Row(name, "unskew", ratio, "x", target=1.10, better="lower"),
            Row(f"{name}, 95 % interval from", "unskew", low, "x"),
            Row(f"{name}, 95 % interval to", "unskew", high, "x"),
            Row("moving batches", "unskew", median(moving), "s", better="lower", samples=moving),
            Row("quiet batches", "unskew", median(quiet), "s", better="lower", samples=quiet),
        ]


def ratio_of_medians(moving: list[float], quiet: list[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Return the ratio of medians with a 95 % bootstrap interval around it: low, ratio, high.

    Examples
    --------
    >>> ratio_of_medians([2.0, 2.0, 2.0], [1.0, 1.0, 1.0])
    (2.0, 2.0, 2.0)
    """
    rng = np.random.default_rng(0)
    medians = [np.median(rng.choice(np.array(sample), (draws, len(sample))), axis=1) for sample in (moving, quiet)]
    low, high = np.quantile(medians[0] / medians[1], [0.025, 0.975])
    return float(low), median(moving) / median(quiet), float(high)


def _run(home: Path, keys: int, rows: int, batches: int) -> tuple[list[float], list[float], float]:
    rng = np.random.default_rng(0)
    names = pa.array([f"k{i}" for i in range(keys)])
    write_file(home / "data", 0, names, np.ones(keys))
    for batch in range(1, batches):
        write_file(home / "data", batch, names.take(pa.array(rng.integers(0, keys, rows))), np.ones(rows))
    spark = session(master="local[2,4]")
    try:
        events = read_files(spark, home / "data")
        balanced = unskew.balance(
            events, "key", channels=CHANNELS, planner=MoveAShare(), plan="ahead", interval=PERIOD, min_gain=-np.inf
        )
        writer = balanced.aggregate(n="count", total="sum(value)").writeStream.foreachBatch(discard)
        query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = {p.batchId: p.durationMs["triggerExecution"] / 1e3 for p in query.recentProgress if p.batchId > 2}
        shares = {each.batch_id: each.moved_bytes / each.state_bytes for each in query.figures if each.moved_slots}
    finally:
        spark.stop()
    quiet = [s for batch, s in seconds.items() if batch not in shares]
    return quiet, [s for batch, s in seconds.items() if batch in shares], float(np.mean(list(shares.values())))
