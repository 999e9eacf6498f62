"""What a job would do, found out from a sample of its rows and without writing output."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from unskew.bars import counted
from unskew.errors import redacted
from unskew.hashing import hash_keys
from unskew.jobs.job import Job
from unskew.jobs.query import check_sink, stage_of
from unskew.jobs.sources import sample_of
from unskew.load.statistics import Statistics
from unskew.planners import Report
from unskew.routing.table import RoutingTable
from unskew.runtime.figures import HotKey
from unskew.runtime.log import RecordLog
from unskew.runtime.measure import key_text
from unskew.runtime.reach import within_reach
from unskew.runtime.record import Identity
from unskew.spark.checkpoint import check_checkpoint
from unskew.spark.hadoop import checkpoint_files
from unskew.spark.paths import qualified
from unskew.spark.stage import Stage
from unskew.spark.writer import OWN_FOLDER
from unskew.state import group_rows

SAMPLE_ROWS = 100_000
HOT_KEYS = 5


@dataclass(frozen=True)
class Skew:
    """The key's skew in a sample, and what unskew would do about it."""

    rows: int  # of the sample
    distinct_keys: int  # by which the operator groups them
    hot_keys: tuple[HotKey, ...]  # the heaviest keys, with their shares of the rows and the channels they would have
    combined: bool  # rows are combined where they are read, so that a hot key is one row of each partition
    loads_before: tuple[float, ...]  # rows per channel under hashing; combined ones as if each core read one partition
    loads_after: tuple[float, ...]  # the same under the plan
    report: Report  # the plan in figures
    unsplittable: tuple[str, ...]  # keys that alone exceed what a channel may have

    @property
    def speedup(self) -> float:
        """How many times as fast a batch would be.

        A batch takes as long as its fullest channel. Where rows are combined first, that work is even already, and
        balance does not shorten it.
        """
        even = self.rows / len(self.loads_before) if self.combined else 0.0
        return (even + max(self.loads_before)) / (even + max(self.loads_after))

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {**asdict(self), "speedup": self.speedup}


@dataclass(frozen=True)
class Preview:
    """What would run, in words."""

    source: str
    input_columns: str
    key: str
    operator: str
    output_columns: str
    sink: str
    trigger: str
    checkpoint: str | None
    batches_done: int  # that the checkpoint holds already
    planner: str
    channels: int
    skew: Skew | None  # None if there are no rows yet

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {**asdict(self), "skew": None if self.skew is None else self.skew.as_dict()}


def preview(spark: SparkSession, job: Job, sample_rows: int = SAMPLE_ROWS) -> Preview:
    """Check the job against its source, its sink and its checkpoint, and plan for a sample of its rows."""
    stage = stage_of(spark, job)
    check_sink(spark, job)
    return Preview(
        source=redacted(job.source),
        input_columns=_columns(stage.events.schema),
        key=", ".join(job.key_columns),
        operator=repr(stage.operator),
        output_columns=_columns(stage.output_schema),
        sink=redacted(job.sink),
        trigger=_trigger(job),
        checkpoint=job.checkpoint_location and redacted(job.checkpoint_location),
        batches_done=_batches_done(spark, job, stage),
        planner=str(stage.settings.planning.planner),
        channels=stage.settings.channels.count,
        skew=_skew(spark, job, stage, sample_rows),
    )


def _batches_done(spark: SparkSession, job: Job, stage: Stage) -> int:
    """Return how many batches the checkpoint holds; raise `CheckpointError` as a start would."""
    if job.checkpoint_location is None:
        return 0
    checkpoint = checkpoint_files(spark, qualified(spark, job.checkpoint_location))
    log = RecordLog(checkpoint.child(OWN_FOLDER))
    identity = Identity(tuple(stage.operator.key), repr(stage.operator), stage.settings.channels.slots, name="")
    check_checkpoint(checkpoint, log, identity, stage.operator)
    return log.last()[1] + 1


def _skew(spark: SparkSession, job: Job, stage: Stage, sample_rows: int) -> Skew | None:
    operator = stage.operator
    columns = operator.columns_read if operator.learns else job.key_columns
    sample = sample_of(spark, job, sample_rows).select(*columns).toArrow()
    if not sample.num_rows:
        return None
    rows = operator.expand(sample)
    groups = group_rows(rows, hash_keys(rows, operator.key), operator.key)
    hashes, first, entry = np.unique(groups.hashes, return_index=True, return_inverse=True)
    counts = np.bincount(entry, groups.counts, len(hashes))
    load = _partitions_with(counts.astype(np.float64), stage.cores) if operator.mergeable else counts
    names = key_text(groups.keys).take(first)
    statistics = Statistics.of_keys(hashes, load, keys=names)
    channels, planner = stage.settings.channels, stage.settings.planning.planner
    table = RoutingTable.initial(channels.count, channels.slots)
    plan = within_reach(planner, statistics, table).plan(statistics, table)
    before, after = (np.bincount(each.lookup(hashes), load, channels.count).tolist() for each in (table, plan.table))
    heaviest = np.argsort(-counts, kind="stable")[:HOT_KEYS]
    owners = plan.table.lookup(hashes)
    limit = (1 + getattr(planner, "tolerance", 0.0)) * load.sum() / channels.count
    by_load = np.argsort(-load, kind="stable")
    too_heavy = by_load[load[by_load] > limit] if channels.count > 1 else []
    return Skew(
        rows=sample.num_rows,
        distinct_keys=len(groups),
        hot_keys=tuple(HotKey(names[int(i)].as_py(), counts[i] / rows.num_rows, int(owners[i])) for i in heaviest),
        combined=operator.mergeable or operator.learns,
        loads_before=tuple(before),
        loads_after=tuple(after),
        report=plan.report,
        unsplittable=tuple(names[int(i)].as_py() for i in too_heavy),
    )


def _partitions_with(counts: NDArray[np.float64], partitions: int) -> NDArray[np.float64]:
    """Return how many partitions each key is expected in, if its rows may lie anywhere.

    >>> _partitions_with(np.array([1.0, 1000.0]), 4).round(2).tolist()
    [1.0, 4.0]
    """
    expected: NDArray[np.float64] = partitions * (1 - (1 - 1 / partitions) ** counts)
    return expected


def _columns(schema: object) -> str:
    text: str = schema.simpleString()  # type: ignore[attr-defined]
    return text.removeprefix("struct<").removesuffix(">").replace(",", ", ").replace(":", " ")


def _trigger(job: Job) -> str:
    if job.follow or job.endless:
        how = f"follows the source, a batch every {job.every}" if job.every else "follows the source"
    else:
        how = "ends with what is there"
    return how if job.batches is None else f"{how}, at most {counted(job.batches, 'batch')}"
