"""Run a job to its end, or to Ctrl-C, showing its batches as they end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from unskew.errors import SessionError, redacted
from unskew.jobs.job import Job
from unskew.jobs.query import check_before_spark, session_of, start
from unskew.jobs.sources import first_line
from unskew.jobs.view import NoView
from unskew.runtime.figures import BatchFigures
from unskew.spark.query import BalancedQuery
from unskew.spark.trial import is_running

LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Outcome:
    """What a run gave."""

    batches: tuple[BatchFigures, ...]
    seconds: float  # from the job's start to its end, without those of Spark
    spark_seconds: float  # until Spark was there; next to nothing if it ran already
    interrupted: bool
    checkpoint: str | None

    @property
    def rows(self) -> int:
        return sum(batch.rows for batch in self.batches)

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        batches = [{"batchId": batch.batch_id, **batch.as_dict()} for batch in self.batches]
        return {"rows": self.rows, **vars(self), "batches": batches}


@contextmanager
def own_or_running_session(job: Job) -> Iterator[SparkSession]:
    """Give a session; one that was started for the job is stopped with it."""
    ours = not is_running()
    spark = session_of(job)
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # pyspark's own would cancel all jobs, noisily
    try:
        yield spark
    finally:
        if ours:
            spark.stop()


def run(job: Job, view: NoView) -> Outcome:
    """Run a job; a query that fails is a `SessionError` with the reason."""
    check_before_spark(job)
    batches: list[BatchFigures] = []
    interrupted = False
    times = [time.monotonic()]
    with view:
        try:
            with own_or_running_session(job) as spark:
                times.append(time.monotonic())
                query = start(spark, job)
                spark.sparkContext.setLogLevel("OFF")  # we say ourselves what goes wrong, once and in one line
                try:
                    for batch in _follow(query, job.batches):
                        batches.append(batch)
                        view.show(batches)
                finally:
                    query.stop()  # a batch that is cancelled runs again at the next start
                    times.append(time.monotonic())
                    spark.sparkContext.setLogLevel("ERROR")
        except KeyboardInterrupt:
            interrupted = True
    began, ready, ended = (*times, *[time.monotonic()] * 2)[:3]
    checkpoint = job.checkpoint_location and redacted(job.checkpoint_location)
    return Outcome(tuple(batches), ended - ready, ready - began, interrupted, checkpoint)


def _follow(query: BalancedQuery, most: int | None) -> Iterator[BatchFigures]:
    """Give the batches as they end. Waits in Python, not in Java, so that Ctrl-C is answered at once."""
    last = max((batch.batch_id for batch in query.figures), default=-1)  # of earlier starts
    shown = 0
    while True:
        active = query.isActive  # before the figures, so that the last batch is not missed
        for batch in query.figures:
            if batch.batch_id <= last:
                continue
            last, shown = batch.batch_id, shown + 1
            yield batch
            if shown == most:
                return
        if not active:
            break
        time.sleep(LOOK_SECONDS)
    problem = query.exception()
    if problem is not None:
        hint = "what was committed stays; unskew --debug shows the whole error"
        raise SessionError(f"the job failed: {_reason(str(problem))}", hint=hint) from problem


def _reason(text: str) -> str:
    """Return the line of a long error of Spark's that says what happened."""
    lines = [line.strip() for line in text.splitlines()]
    telling = [line for line in lines if line.startswith("unskew.errors.") or "Error: " in line]
    return (telling[-1] if telling else first_line(ValueError(text))).removeprefix("unskew.errors.")
