"""What a migration costs while the query runs: a query that moves state in every batch, beside one that moves none."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.planners import Assignment, Memory, Planner, Problem
from unskew.routing.table import RoutingTable
from unskew_lab.bench.count_and_sum import balanced_sums
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.lane import by_turns
from unskew_lab.bench.pairs import batch_rows, ratio_of_medians
from unskew_lab.bench.streams import (
    StartWithSink,
    in_turn,
    read_files,
    temporary_folder,
    temporary_session,
    write_file,
)

MOVED_SHARE = 0.05
WARM_UP = 4
MOVING, QUIET = "moving", "quiet"


@dataclass(frozen=True)
class MoveAShare(Planner):
    """Gives a share of the slots to the next channel, whatever the load."""

    for_balance: ClassVar[bool] = False
    tolerance: float = 0.0
    share: float = MOVED_SHARE

    def slots(self, table: RoutingTable, channels: int) -> NDArray[np.int32]:
        """Return the slots with a share of them moved on, another one each time."""
        drawn = np.random.default_rng(table.version).random(len(table.slots)) < self.share
        return np.where(drawn, (table.slots + 1) % channels, table.slots).astype(np.int32)

    def assign(self, problem: Problem, memory: Memory) -> Assignment:
        return Assignment(problem.home, memory=memory)


class MigrationBenchmark(Benchmark):
    """A running count and sum of which 5 % of the state moves in every batch, and the same query with none moving.

    The two take turns, a batch each. Both count every batch first and plan it by its own counts, with a planner that
    draws slots and leaves the load alone: nothing but the moves tells them apart. The first batch holds all keys, and
    with three more it warms up. The interval is a bootstrap of turns.
    """

    name: ClassVar[str] = "migration"
    summary: ClassVar[str] = "batches in which state moves, beside quiet ones of the same stream"

    def run(self, quick: bool) -> list[Row]:
        if quick:
            self.note("A quick run has few turns: targets are judged by the whole run.")
            return self.run_size(keys=100_000, rows=100_000, turns=16)
        return self.run_size(keys=500_000, rows=300_000, turns=80)

    def run_size(self, keys: int, rows: int, turns: int) -> list[Row]:
        with temporary_folder() as home, temporary_session("local[2,4]") as spark:
            _write(home / "files", keys, rows, WARM_UP + turns)
            lanes = by_turns(
                {
                    who: in_turn(read_files(spark, home / "files"), home / who, _moving(share))
                    for who, share in ((MOVING, MOVED_SHARE), (QUIET, 0.0))
                }
            )
            seconds = {name: lane.after(WARM_UP) for name, lane in lanes.items()}
            figures = lanes[MOVING].query.figures[WARM_UP:]
        share = mean(each.moved_bytes / each.state_bytes for each in figures)
        name = f"{share:.1%} of {keys:,} keys' state moves, {rows:,} rows a batch"
        ratio = ratio_of_medians(seconds[MOVING], seconds[QUIET])
        return [
            ratio.row(f"{name}: {MOVING} over {QUIET}", target=1.10, better="lower"),
            *batch_rows(name, seconds),
        ]


def _write(files: Path, keys: int, rows: int, batches: int) -> None:
    rng, names = np.random.default_rng(0), pa.array([f"k{i}" for i in range(keys)])
    write_file(files, 0, names, np.ones(keys))
    for batch in range(1, batches):
        write_file(files, batch, names.take(pa.array(rng.integers(0, keys, rows))), np.ones(rows))


def _moving(share: float) -> StartWithSink:
    return partial(balanced_sums, planner=MoveAShare(share=share), plan="own", min_gain=-np.inf)
