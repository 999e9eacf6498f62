"""Trials as a Spark job: one row each, spread over the cluster, results in one Parquet file."""

from __future__ import annotations

import dataclasses
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Measures = dict[str, list[float]]
T = TypeVar("T")

_TASKS_PER_CORE = 16  # trials differ in length: many small tasks keep all cores busy to the end
_RESULTS = pa.schema(
    [("trial", pa.int64()), ("seconds", pa.float64()), ("measures", pa.map_(pa.string(), pa.list_(pa.float64())))]
)


def matches(trial: Any, where: Mapping[str, object]) -> bool:
    """Tell whether a trial has these parameters."""
    return all(getattr(trial, name) == value for name, value in where.items())


def cpu_seconds(work: Callable[[], T], calls: int, enough: float = math.inf) -> tuple[T, float]:
    """Return the result and the CPU time of this thread, the least of so many calls: other work can only add to it.

    A call that takes more than `enough` seconds is the last.
    """
    best = math.inf
    for _ in range(calls):
        started = time.thread_time()
        result = work()
        best = min(best, time.thread_time() - started)
        if best > enough:
            break
    return result, best


def run_trials(
    spark: SparkSession, trials: Sequence[Any], measure: Callable[[Any], Measures], results: Path | None = None
) -> list[tuple[Any, Measures]]:
    """Measure every trial in Spark's tasks and return the trials with what was measured, in the order given.

    Trials are frozen dataclasses of one type with plain values; they run in random order, so that long ones do not meet
    in one task. `measure` is a pure function at the top of a module that workers can import. The Parquet file `results`
    gets a row per trial: its parameters, ``took_seconds`` and its measures.
    """
    numbers = list(range(len(trials)))
    random.Random(0).shuffle(numbers)
    kind, parameters = type(trials[0]), [dataclasses.asdict(trial) for trial in trials]

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for place in batch.column("id").to_pylist():
                number, started = numbers[place], time.perf_counter()
                measures = measure(kind(**parameters[number]))
                row = {"trial": number, "seconds": time.perf_counter() - started, "measures": list(measures.items())}
                yield pa.RecordBatch.from_pylist([row], schema=_RESULTS)

    tasks = min(len(trials), _TASKS_PER_CORE * spark.sparkContext.defaultParallelism)
    places = spark.range(0, len(trials), 1, tasks)
    answers = places.mapInArrow(work, "trial long, seconds double, measures map<string, array<double>>").toArrow()
    answers = answers.sort_by("trial")
    if results is not None:
        columns = pa.Table.from_pylist(parameters)
        columns = columns.append_column("took_seconds", answers.column("seconds"))
        columns = columns.append_column("measures", answers.column("measures"))
        pq.write_table(columns, results)
    return [
        (trial, dict(measures)) for trial, measures in zip(trials, answers.column("measures").to_pylist(), strict=True)
    ]
