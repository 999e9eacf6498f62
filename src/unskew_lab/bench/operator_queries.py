"""Whole queries of one operator, beside Spark's own way on the same files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import unskew
from unskew.testing import write_batches
from unskew_lab.bench.harness import Row
from unskew_lab.bench.operator_subjects import SCHEMA, SHAPES, Subject, batch_rows
from unskew_lab.bench.streams import Start, batch_seconds, start, temporary_folder, temporary_session

CHANNELS = 4
WARM_UPS = 3
OURS, NATIVE, PYTHON = "unskew", "Spark's own", "Python per key"

Query = Callable[[DataFrame], Any]  # makes of a stream what is written: a stage of ours, or rows of Spark's


def beside_spark(subjects: list[Subject], rows: int, batches: int = 6) -> list[Row]:
    """Compare whole queries with Spark's own aggregations."""
    queries = {subject: subject.native for subject in subjects if subject.native is not None}
    return _compared(queries, NATIVE, [rows] * batches, skipped=batches // 2)


def beside_python(subjects: list[Subject], rows: int, batches: int = 1) -> list[Row]:
    """Compare whole queries with a Python function that Spark calls for every key, where it has no other way.

    That takes about a millisecond for a key: of large batches, which show what keys cost and not what batches cost,
    there can be few. Small ones before them start everything up.
    """
    queries = {subject: subject.per_key for subject in subjects if subject.per_key is not None}
    return _compared(queries, PYTHON, [rows // 50] * WARM_UPS + [rows] * batches, skipped=WARM_UPS)


def write_rows(folder: Path, sizes: Sequence[int], exponent: float) -> None:
    """Write a file for each batch, of so many rows."""
    write_batches(folder, (batch_rows(batch, rows, exponent) for batch, rows in enumerate(sizes)))


def started(mode: str, query: Query) -> Start:
    """Return a contender: a query whose rows are thrown away."""
    return lambda events, checkpoint: start(query(events), checkpoint, mode=mode)


def side_by_side(
    spark: SparkSession,
    folder: Path,
    name: str,
    contenders: Mapping[str, Start],
    *,
    skipped: int,
    targets: Mapping[str, float | None],
) -> list[Row]:
    """Measure contenders, ours first; return how many times faster ours is than each other, and the seconds of all."""
    times = batch_seconds(spark, folder, contenders, rounds=1, skipped=skipped, schema=SCHEMA)
    results = []
    for who in [who for who in times if who != OURS]:
        ratio = median(times[who]) / median(times[OURS])
        results.append(Row(f"{name}: times faster than {who}", OURS, ratio, "x", ratio=ratio, target=targets.get(who)))
    return results + [
        Row(name, who, median(seconds), "s", better="lower", samples=seconds) for who, seconds in times.items()
    ]


def _compared(queries: Mapping[Subject, Query], who: str, sizes: Sequence[int], skipped: int) -> list[Row]:
    results = []
    with (
        temporary_session("local[2,4]", {"spark.sql.shuffle.partitions": str(CHANNELS)}) as spark,
        temporary_folder() as home,
    ):
        for shape, exponent in SHAPES.items():
            folder = home / shape
            write_rows(folder, sizes, exponent)
            for subject, query in queries.items():
                contenders = {OURS: _ours(subject), who: _theirs(subject, query)}
                name = f"{subject.name}, {shape}, {sizes[-1]:,} rows a batch"
                targets = {who: subject.native_target}
                results += side_by_side(spark, folder, name, contenders, skipped=skipped, targets=targets)
    return results


def _ours(subject: Subject) -> Start:
    def query(events: DataFrame) -> Any:
        return unskew.balance(subject.marked(events), "key", channels=CHANNELS).apply(subject.operator)

    return started(subject.operator.output_mode, query)


def _theirs(subject: Subject, query: Query) -> Start:
    return started(subject.operator.output_mode, lambda events: query(subject.marked(events)))
