"""How planners grow with channels and keys: the simulator's study at a few of its sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.simulation.study import Point, Study

PLANNERS = ("consistent", "mixed", "mintable", "scan", "flux-load", "smalops")
TOLERANCE = 0.08
SEEDS = 3


class ScaleBenchmark(Benchmark):
    """Plan for 10 to 1,000 channels and up to 10^8 keys, as expected loads instead of single tuples.

    Values are means over the intervals after the first; the samples are runs with other drifts. Planning times include
    building the problem from the statistics. The target is Mixed's own: the overload that it tolerates.
    """

    name: ClassVar[str] = "scale"
    summary: ClassVar[str] = "planners at 10 to 1,000 channels and up to 100 million keys, simulated"

    def run(self, quick: bool) -> list[Row]:
        sizes = [(10, 10**6), (100, 10**6), (1000, 10**6)]
        sizes += [] if quick else [(10, 10**8), (100, 10**8), (1000, 10**8)]
        rows: list[Row] = []
        for channels, keys in sizes:
            runs = [Study(channels=channels, keys=keys, seed=seed).run(PLANNERS) for seed in range(SEEDS)]
            for points in zip(*runs, strict=True):
                rows += _rows(points)
        return rows


def _rows(points: tuple[Point, ...]) -> Iterator[Row]:
    first = points[0]
    where, who = f"{first.channels:,} channels, {first.keys:,} keys", first.planner
    target = TOLERANCE if who == "mixed" else None
    yield _row(f"{where}: overload", who, [p.imbalance for p in points], "", target)
    yield _row(f"{where}: overload an interval later", who, [p.imbalance_next for p in points], "")
    yield _row(f"{where}: state moved", who, [100 * p.migrated_share for p in points], "%")
    yield _row(f"{where}: plan", who, [1e3 * p.planning_seconds for p in points], "ms")


def _row(name: str, who: str, samples: list[float], unit: str, target: float | None = None) -> Row:
    middle = sorted(samples)[len(samples) // 2]
    return Row(name, who, middle, unit, target=target, better="lower", samples=samples)
