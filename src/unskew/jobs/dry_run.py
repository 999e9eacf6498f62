"""What a job would do, found out from a sample of its rows and without writing anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from unskew.hashing import hash_keys
from unskew.jobs.job import Job
from unskew.jobs.query import stage_of
from unskew.jobs.sources import sample_of
from unskew.load.statistics import Statistics
from unskew.planners import Report
from unskew.routing.table import RoutingTable
from unskew.runtime.figures import HotKey
from unskew.runtime.measure import key_text
from unskew.runtime.reach import within_reach
from unskew.spark.stage import Stage
from unskew.state import group_rows

SAMPLE_ROWS = 100_000
HOT_KEYS = 5


@dataclass(frozen=True)
class Skew:
    """The key's skew in a sample, and what unskew would do about it.

    Parameters
    ----------
    rows, distinct_keys
        Rows of the sample, and keys by which the operator groups them.
    hot_keys
        The heaviest keys with their shares of the rows, and the channels they would have.
    combined
        Whether rows are combined where they are read, so that a hot key is one row of each partition.
    loads_before, loads_after
        Rows that reach each channel, under hashing and under the plan. Combined rows are estimated, as if the sample
        came in one partition per core.
    report
        The plan in figures.
    unsplittable
        Keys that alone exceed what a channel may have, by name.
    """

    rows: int
    distinct_keys: int
    hot_keys: tuple[HotKey, ...]
    combined: bool
    loads_before: tuple[float, ...]
    loads_after: tuple[float, ...]
    report: Report
    unsplittable: tuple[str, ...]

    @property
    def speedup(self) -> float:
        """How many times as fast a batch would be.

        A batch is bound by its fullest channel. Where rows are combined first, each of them costs about as much there,
        whatever its key: that work is even, and balance does not shorten it.
        """
        even = self.rows / len(self.loads_before) if self.combined else 0.0
        return (even + max(self.loads_before)) / (even + max(self.loads_after))

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {**asdict(self), "speedup": self.speedup}


@dataclass(frozen=True)
class Preview:
    """What would run, in words, and the skew of its key; None if there are no rows yet."""

    source: str
    input_columns: str
    key: str
    operator: str
    output_columns: str
    sink: str
    trigger: str
    checkpoint: str | None
    planner: str
    channels: int
    skew: Skew | None

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {**asdict(self), "skew": None if self.skew is None else self.skew.as_dict()}


def preview(spark: SparkSession, job: Job, sample_rows: int = SAMPLE_ROWS) -> Preview:
    """Check the job against its source, look at a sample of at most so many rows, and plan; writes nothing."""
    stage = stage_of(spark, job)
    return Preview(
        source=job.source,
        input_columns=_columns(stage.events.schema),
        key=", ".join(job.key_columns),
        operator=repr(stage.operator),
        output_columns=_columns(stage.output_schema),
        sink=job.sink,
        trigger=_trigger(job),
        checkpoint=job.checkpoint_location,
        planner=str(stage.settings.planning.planner),
        channels=stage.settings.channels.count,
        skew=_skew(spark, job, stage, sample_rows),
    )


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
    too_heavy = np.searchsorted(hashes, np.array(plan.report.unsplittable, np.int64))
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
    """Return in how many partitions each key is to be expected, if its rows may lie anywhere.

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
    return how if job.batches is None else f"{how}, at most {job.batches} batches"
