"""The papers' ways to partition a skewed stream, one against another in one runtime."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable
from contextlib import ExitStack
from itertools import groupby
from typing import ClassVar

from unskew import machine
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.race.contenders import IDEAL
from unskew_lab.bench.race.measures import Measured
from unskew_lab.bench.race.parts import Part, quick_parts, whole_parts
from unskew_lab.bench.race.race import Runs, race, warm_up
from unskew_lab.bench.race.rows import rows_of
from unskew_lab.bench.store import place

__all__ = ["RaceBenchmark"]


BUDGET_MINUTES = 60.0


class RaceBenchmark(Benchmark):
    """Ten saturated channels work on keys whose popularity is skewed and changes; every tuple takes its time.

    A channel waits for its tuples and holds no core while it does, so that two cores imitate ten busy machines.
    Throughput is that of round robin, the same query with work as even as can be, divided into each contender's: the
    time of all batches after the first few. Round robin and Spark's hash run in unskew too, with a planner that moves
    nothing: contenders shall differ in their routing alone. What unskew gains over native Spark is measured by
    ``unskew bench skew``, and no target is judged here.

    A whole run begins no part after an hour (or ``UNSKEW_BENCH_MINUTES``). It keeps every contender's batches beside
    the result of its commit, and the next one goes on from there; in a changed tree nothing is kept.
    """

    name: ClassVar[str] = "race"
    summary: ClassVar[str] = "saturated streams under the papers' ways to partition them, in one runtime"

    def run(self, quick: bool) -> list[Row]:
        if quick:
            return self.run_parts(quick_parts(), Runs())
        minutes = float(os.environ.get("UNSKEW_BENCH_MINUTES", BUDGET_MINUTES))
        return self.run_parts(whole_parts(), kept_runs(), minutes * 60)

    def run_parts(self, parts: Iterable[Part], runs: Runs, seconds: float = math.inf) -> list[Row]:
        """Race on each stream in turn, beginning none after so many seconds that has not been run before.

        One session serves all streams in a row that can share it.
        """
        rows: list[Row] = []
        left_out: list[str] = []
        end = time.monotonic() + seconds
        for _, several in groupby(parts, lambda part: part.setup.threads):
            with ExitStack() as sessions:
                spark = None
                for part in several:
                    if not runs.have(part.stream, part.contenders, part.setup):
                        if time.monotonic() > end:
                            left_out.append(part.stream.name)
                            continue
                        if spark is None:
                            spark = sessions.enter_context(part.setup.spark())
                            warm_up(spark, part.setup)
                    rows += self._rows(part, race(spark, part.stream, part.contenders, part.setup, runs))
        if left_out:
            self.note(f"No time was left for {'; '.join(left_out)}. The next run of the same commit goes on with them.")
        return rows

    def _rows(self, part: Part, results: dict[str, Measured]) -> list[Row]:
        rows = rows_of(part.stream, part.contenders, part.setup, results)
        fixed = next(row for row in rows if row.name.endswith("fixed cost of a batch"))
        self.note(
            f"{part.stream.name}: {part.setup.work_seconds:g} s of work in an even batch; {fixed.value:.2f} s of every "
            f"batch, {fixed.ratio or 0:.0%} under {IDEAL}, are Spark's and unskew's own."
        )
        return rows


def kept_runs() -> Runs:
    """Return where the runs of this commit are kept; nowhere if the tree has changed since."""
    commit = machine.commit()
    return Runs(None if commit.startswith("dirty") else place("race-runs", quick=False, commit=commit).with_suffix(""))
