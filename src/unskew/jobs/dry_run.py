"""What a job would do, found out from a sample of its rows and without writing anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
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
        Of the sample.
    hot_keys
        The heaviest keys with their shares, and the channels they would have.
    loads_before, loads_after
        Rows per channel under hashing and under the plan.
    report
        The plan in figures.
    unsplittable
        Keys that alone exceed what a channel may have, by name.
    """

    rows: int
    distinct_keys: int
    hot_keys: tuple[HotKey, ...]
    loads_before: tuple[float, ...]
    loads_after: tuple[float, ...]
    report: Report
    unsplittable: tuple[str, ...]


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
        return asdict(self)


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
    key = list(job.key_columns)
    rows = sample_of(spark, job, sample_rows).select(*key).toArrow()
    if not rows.num_rows:
        return None
    groups = group_rows(rows, hash_keys(rows, key), key)
    hashes, first, entry = np.unique(groups.hashes, return_index=True, return_inverse=True)
    counts = np.bincount(entry, groups.counts, len(hashes))
    names = key_text(groups.keys).take(first)
    statistics = Statistics.of_keys(hashes, counts, keys=names)
    channels, planner = stage.settings.channels, stage.settings.planning.planner
    table = RoutingTable.initial(channels.count, channels.slots)
    plan = within_reach(planner, statistics, table).plan(statistics, table)
    before, after = (np.bincount(each.lookup(hashes), counts, channels.count).tolist() for each in (table, plan.table))
    heaviest = np.argsort(-counts, kind="stable")[:HOT_KEYS]
    owners = plan.table.lookup(hashes)
    too_heavy = np.searchsorted(hashes, np.array(plan.report.unsplittable, np.int64))
    return Skew(
        rows=rows.num_rows,
        distinct_keys=len(groups),
        hot_keys=tuple(HotKey(names[int(i)].as_py(), counts[i] / rows.num_rows, int(owners[i])) for i in heaviest),
        loads_before=tuple(before),
        loads_after=tuple(after),
        report=plan.report,
        unsplittable=tuple(names[int(i)].as_py() for i in too_heavy),
    )


def _columns(schema: object) -> str:
    text: str = schema.simpleString()  # type: ignore[attr-defined]
    return text.removeprefix("struct<").removesuffix(">").replace(",", ", ").replace(":", " ")


def _trigger(job: Job) -> str:
    if job.follow or job.endless:
        how = f"follows the source, a batch every {job.every}" if job.every else "follows the source"
    else:
        how = "ends with what is there"
    return how if job.batches is None else f"{how}, at most {job.batches} batches"
