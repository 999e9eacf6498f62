"""The headline: native Spark beside unskew on skewed keys whose hot ones change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from pyspark.sql import SparkSession

from unskew.runtime.figures import BatchFigures
from unskew_lab.bench.count_and_sum import balanced_sums
from unskew_lab.bench.drop_in import NATIVE, OURS, native_and_drop_in, run_checked, write_stream
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.pairs import batch_rows, percentile_95, ratio_of_medians
from unskew_lab.bench.streams import read_files, temporary_folder, temporary_session
from unskew_lab.bench.work import Kind

FASTER = "native over unskew"
FULLEST = "fullest channel over max(mean, heaviest key)"
HASH = "Spark's hash"


@dataclass(frozen=True)
class Work:
    """A stream whose rows take their time, and the session it runs in."""

    name: str
    kind: Kind
    seconds_per_row: float
    channels: int
    threads: int
    faster_target: float
    p95_target: float | None = None
    rows: int = 20_000


@dataclass(frozen=True)
class Balance:
    """Streams that are only counted: what matters is how full the channels are."""

    exponents: tuple[float, ...]
    channels: int = 10
    rows: int = 200_000


WAITING = Work("rows that wait", "wait", 500e-6, channels=10, threads=10, faster_target=1.8, p95_target=1.15)
COMPUTING = Work("rows that compute", "cpu", 100e-6, channels=8, threads=2, faster_target=1.0)
BALANCE = Balance((0.8, 1.0, 1.2, 1.4))


class SkewBenchmark(Benchmark):
    """A per-key pandas function on skewed keys, as Spark's ``applyInPandasWithState`` runs it and as unskew does.

    The function keeps a count and a sum per key and takes its time for every row. 20,000 rows a batch have 10,000 keys
    with Zipf 1.0 frequencies, and other keys become hot every six batches. The two queries take turns: a batch of
    native Spark, then the same batch of unskew. All counts and sums are checked in the end.

    Rows that wait (500 us each, ten channels on ten threads) hold no core, so two cores play ten busy machines: this
    shows balance, not speed. Rows that compute (100 us each, eight channels on two threads) show what is left of it on
    real cores.

    How full the channels are is told by the figures of a running count, 200,000 rows a batch on ten channels, in every
    batch from the first on. No owner per key can do better than the mean, nor better than the heaviest key. What
    Spark's hash would have made of the same rows stands beside it.
    """

    name: ClassVar[str] = "skew"
    summary: ClassVar[str] = "native Spark beside unskew on skewed keys whose hot ones change"

    def run(self, quick: bool) -> list[Row]:
        if quick:
            self.note("A quick run has few turns: targets are judged by the whole run.")
            balance = Balance(BALANCE.exponents[1::2])
            return self.run_parts((WAITING, 2, 7), (COMPUTING, 1, 3), balance, batches=8)
        return self.run_parts((WAITING, 3, 30), (COMPUTING, 2, 12), BALANCE, batches=13)

    def run_parts(
        self, waiting: tuple[Work, int, int], computing: tuple[Work, int, int], balance: Balance, batches: int
    ) -> list[Row]:
        """Measure both kinds of work, each with so many turns that warm up and so many that count, then the balance."""
        with temporary_folder() as home:
            with temporary_session(f"local[{waiting[0].threads},4]") as spark:
                rows = beside_native(spark, home / "waiting", *waiting)
            with temporary_session(f"local[{computing[0].threads},4]") as spark:
                rows += beside_native(spark, home / "computing", *computing)
                for exponent in balance.exponents:
                    rows += fullest(spark, home / f"Zipf {exponent}", exponent, balance, batches)
        return rows


def beside_native(spark: SparkSession, home: Path, work: Work, warm_up: int, turns: int) -> list[Row]:
    """Run native Spark and unskew by turns, and compare them."""
    write_stream(home, warm_up + turns, work.rows, work.channels)
    contenders = native_and_drop_in(work.channels, work.seconds_per_row, work.kind)
    lanes = run_checked(spark, home, contenders, work.channels)
    seconds = {name: lane.after(warm_up) for name, lane in lanes.items()}
    return list(_compared(work, seconds, lanes[OURS].query.figures))


def _compared(work: Work, seconds: dict[str, list[float]], figures: Iterable[BatchFigures]) -> Iterator[Row]:
    faster = ratio_of_medians(seconds[NATIVE], seconds[OURS])
    yield faster.row(f"{work.name}: {FASTER}", target=work.faster_target)
    yield from batch_rows(work.name, seconds)
    tail = percentile_95(seconds[OURS]) / median(seconds[OURS])
    yield Row(f"{work.name}: batch, 95 % over the median", OURS, tail, "x", target=work.p95_target, better="lower")
    yield from fullest_rows(f"{work.name}, by measured seconds", figures)


def fullest(spark: SparkSession, home: Path, exponent: float, balance: Balance, batches: int) -> list[Row]:
    """Count a stream with unskew, and return how full its channels were.

    Spark would combine the rows of a count, and nothing would be planned: ``plan="own"`` counts and plans every batch.
    """
    write_stream(home, batches, balance.rows, balance.channels, exponent)
    events, checkpoint = read_files(spark, home / "files"), str(home / "checkpoint")
    query: Any = balanced_sums(events, checkpoint, channels=balance.channels, plan="own")
    query.awaitTermination()
    return list(fullest_rows(f"Zipf {exponent}", query.figures, target=1.03))


def fullest_rows(name: str, figures: Iterable[BatchFigures], target: float | None = None) -> Iterator[Row]:
    """Yield the worst batch under unskew, and under Spark's hash; samples are all batches from the first on."""
    over = [over_the_bound(each) for each in figures if each.rows]
    for who, values, hoped in ((OURS, [ours for ours, _ in over], target), (HASH, [other for _, other in over], None)):
        if None not in values:
            known = [value for value in values if value is not None]
            yield Row(f"{name}: {FULLEST}", who, max(known), "", target=hoped, better="lower", samples=known)


def over_the_bound(figures: BatchFigures) -> tuple[float, float | None]:
    """Return the fullest channel over the least that one owner per key allows, and the same under Spark's hash."""
    heaviest = figures.hot_keys[0].share * figures.channels if figures.hot_keys else 0.0
    bound = max(1.0, heaviest)
    return figures.imbalance / bound, None if figures.hash_imbalance is None else figures.hash_imbalance / bound
