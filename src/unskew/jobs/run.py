"""Run a job to its end, or to Ctrl-C, showing its batches as they end."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from unskew.errors import SessionError
from unskew.jobs.job import Job
from unskew.jobs.query import session_of, start
from unskew.jobs.sources import first_line
from unskew.jobs.view import View
from unskew.runtime.figures import BatchFigures
from unskew.spark.query import BalancedQuery
from unskew.spark.trial import is_running

LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Outcome:
    """What a run gave: its batches, how long it took, and whether it was stopped."""

    batches: tuple[BatchFigures, ...]
    seconds: float
    interrupted: bool
    checkpoint: str | None

    @property
    def rows(self) -> int:
        """Rows of all batches."""
        return sum(batch.rows for batch in self.batches)

    def as_dict(self) -> dict[str, object]:
        """Return everything, for JSON."""
        return {
            "rows": self.rows,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "checkpoint": self.checkpoint,
            "batches": [{"batchId": batch.batch_id, **batch.as_dict()} for batch in self.batches],
        }


@contextmanager
def own_or_running_session(job: Job) -> Iterator[SparkSession]:
    """Give a session; one that was started for the job is stopped with it."""
    ours = not is_running()
    spark = session_of(job)
    if ours and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)  # pyspark's own would cancel all jobs, with an outcry
    with ExitStack() as stack:
        if ours:
            stack.callback(spark.stop)
        yield spark


def run(job: Job, view: View) -> Outcome:
    """Run a job; a query that fails is a `SessionError` with the reason."""
    batches: list[BatchFigures] = []
    interrupted = False
    began = time.monotonic()
    with view:
        try:
            with own_or_running_session(job) as spark:
                query = start(spark, job)
                spark.sparkContext.setLogLevel("OFF")  # what goes wrong is said once, in one line, by us
                try:
                    for batch in _follow(query, job.batches):
                        batches.append(batch)
                        view.show(batches, query)
                finally:
                    query.stop()  # a batch that is cancelled runs again at the next start
                    spark.sparkContext.setLogLevel("ERROR")
        except KeyboardInterrupt:
            interrupted = True
    return Outcome(tuple(batches), time.monotonic() - began, interrupted, job.checkpoint_location)


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
        raise SessionError(
            f"the job failed: {_reason(str(problem))}", hint="what was committed stays; unskew --debug shows all of it"
        ) from problem


def _reason(text: str) -> str:
    """Return the line of a long complaint of Spark's that says what happened."""
    lines = [line.strip() for line in text.splitlines()]
    told = [line for line in lines if line.startswith("unskew.errors.") or "Error: " in line]
    return (told[-1] if told else first_line(ValueError(text))).removeprefix("unskew.errors.")
