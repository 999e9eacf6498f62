"""From a job to a running query."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError
from unskew.jobs.connectors import connector_settings, require_delta, require_kafka
from unskew.jobs.job import Job
from unskew.jobs.places import FILES, FOLDERS
from unskew.jobs.sources import first_line, require_source, stream_of
from unskew.spark.balance import balance
from unskew.spark.hadoop import HadoopPlace
from unskew.spark.internals import java_and_hadoop
from unskew.spark.local_session import session
from unskew.spark.paths import qualified
from unskew.spark.query import BalancedQuery
from unskew.spark.stage import Stage
from unskew.spark.trial import is_running
from unskew.spark.writer import BalancedWriter


def check_before_spark(job: Job) -> None:
    """Refuse what is wrong for certain, before Spark takes its seconds to start."""
    if not is_running():  # a session may reach files that this machine does not have
        require_source(job)
        require_delta(job)


def session_of(job: Job) -> SparkSession:
    """Return the running session, or else a new one with all that the job needs."""
    check_before_spark(job)
    conf = {name: str(value) for name, value in job.conf.items()}
    if job.packages:
        conf["spark.jars.packages"] = ",".join(job.packages)
    if not is_running():
        conf |= connector_settings(job)
    return session(job.master, conf)


def stage_of(spark: SparkSession, job: Job) -> Stage:
    """Return what the job runs, checked against the columns of its source."""
    given: dict[str, Any] = {"channels": job.channels, "plan": job.plan}
    balanced = balance(
        stream_of(spark, job),
        job.key_columns,
        planner=job.planner,
        tolerance=job.tolerance,
        interval=job.interval,
        max_move_bytes=job.max_move_bytes,
        **given,
    )
    return balanced.apply(job.make_operator())


def start(spark: SparkSession, job: Job) -> BalancedQuery:
    """Start the job, or let it go on from its checkpoint."""
    writer = _to_sink(spark, stage_of(spark, job).writeStream, job)
    if not (job.follow or job.endless):
        writer = writer.trigger(availableNow=True)
    elif job.every is not None:
        writer = writer.trigger(processingTime=job.every)
    try:
        return writer.start()
    except PySparkException as error:
        raise ArgumentError(f"Spark refuses the job: {first_line(error)}") from None


def _to_sink(spark: SparkSession, writer: BalancedWriter, job: Job) -> BalancedWriter:
    place = job.to_place
    if job.checkpoint_location is not None:
        writer = writer.option("checkpointLocation", job.checkpoint_location)
    if place.kind == "kafka":
        servers, topic = require_kafka(spark, place, "sink")
        options = {"kafka.bootstrap.servers": servers, "topic": topic, **job.sink_options}
        return writer.foreachBatch(lambda rows, _: _send(rows, job.key_columns, options))
    if place.kind in FOLDERS:
        check_sink(spark, job)
        writer = writer.option("path", place.address)
    return writer.options(**job.sink_options).format(place.kind)


def _send(rows: DataFrame, key: tuple[str, ...], options: dict[str, Any]) -> None:
    """Send rows as JSON; equal keys go to the same partition of the topic."""
    names = sql.concat_ws(",", *(sql.col(name).cast("string") for name in key if name in rows.columns))
    messages = rows.select(names.alias("key"), sql.to_json(sql.struct("*")).alias("value"))
    messages.write.format("kafka").options(**options).save()


def check_sink(spark: SparkSession, job: Job) -> None:
    """Refuse a folder with another job's output, which would be overwritten, and Delta where the session has none."""
    require_delta(job, spark)
    if job.to_place.kind not in FILES:
        return

    def names(folder: str) -> list[str]:
        return HadoopPlace(qualified(spark, folder), *java_and_hadoop(spark)).names("")

    folder = job.to_place.address
    if any(name.startswith("batch_id=") for name in names(folder)) and not names(f"{job.checkpoint_location}/offsets"):
        hint = "choose another folder, or go on from its job with --checkpoint"
        raise ArgumentError("this folder has the output of another job", where="sink", got=folder, hint=hint)
