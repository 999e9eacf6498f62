"""From what a user names to advice: which of the three ways, and a session only where one is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession

from unskew.advice.advice import Advice
from unskew.advice.checkpoint import StateLoads, read_checkpoint
from unskew.advice.event_log import EventLog, read_event_log
from unskew.advice.sources import advise_checkpoint, advise_rows
from unskew.advice.timed import advise_event_log
from unskew.errors import ArgumentError, CheckpointError, redacted
from unskew.jobs.job import Job
from unskew.jobs.places import EXAMPLES, SOURCES, did_you_mean
from unskew.jobs.run import own_or_running_session
from unskew.jobs.sources import rows_of

OWN = {"eventlog": "eventlog:FILE", "checkpoint": "checkpoint:DIR"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The question, as on the command line."""

    source: str
    key: str | None = None
    partitions: int | None = None
    cores: int | None = None
    seconds: float | None = None
    weight: str | None = None
    schema: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    source_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict, repr=False)

    def job(self, source: str) -> Job:
        """Return a job that reads the source; it is never started."""
        return Job(
            source=source,
            sink="console",
            key=self.key or "key",
            aggregate="count",
            batches=1,
            schema=self.schema,
            columns=self.columns,
            where=self.where,
            source_options=self.source_options,
            master=self.master,
            conf=self.conf,
        )


def answer(asked: Asked) -> Advice:
    """Return the advice, or raise an error that says what is wrong with the question."""
    kind, _, address = asked.source.partition(":")
    if kind in OWN and not address:
        raise ArgumentError("this source needs an address", where="source", got=asked.source, hint=OWN[kind])
    if kind == "eventlog":
        log = read_event_log(address)
        return _from_log(asked, log if asked.cores is None else replace(log, cores=asked.cores))
    if kind == "checkpoint":
        with own_or_running_session(asked.job("rate")) as spark:
            return advise_checkpoint(spark, address, weight=asked.weight, cores=asked.cores, seconds=asked.seconds)
    if kind not in SOURCES:
        hint = did_you_mean(kind, (*SOURCES, *OWN), {**EXAMPLES, **OWN})
        raise ArgumentError("there is no such source", where="source", got=kind, hint=hint)
    if asked.key is None:
        raise ArgumentError("say which key the job groups by", where="key", hint="add --key COLUMN")
    job = asked.job(asked.source)
    with own_or_running_session(job) as spark:
        return advise_rows(
            rows_of(spark, job),
            job.key_columns,
            redacted(asked.source),
            partitions=asked.partitions,
            cores=asked.cores,
            seconds=asked.seconds,
        )


def _from_log(asked: Asked, log: EventLog) -> Advice:
    """Give advice on a log. Its keys are in the query's checkpoint, if that is still where the log says."""
    place = log.checkpoints.get(log.busiest)
    if place is None:
        return advise_event_log(log, asked.source)
    with own_or_running_session(asked.job("rate")) as spark:
        state = _state(spark, place, asked.weight)
    if state is None:
        return advise_event_log(log, asked.source)
    return advise_event_log(log, asked.source, state.keys, state.key, state.weight)


def _state(spark: SparkSession, checkpoint: str, weight: str | None) -> StateLoads | None:
    try:
        return read_checkpoint(spark, checkpoint, weight)
    except CheckpointError:
        return None
