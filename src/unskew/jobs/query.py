"""From a job to a running query."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError
from unskew.jobs.job import Job
from unskew.jobs.kafka import connector_settings, require_kafka
from unskew.jobs.places import FOLDERS
from unskew.jobs.sources import first_line, stream_of
from unskew.spark.balance import BalancedStream, balance
from unskew.spark.local_session import session
from unskew.spark.query import BalancedQuery
from unskew.spark.stage import Stage
from unskew.spark.trial import is_running
from unskew.spark.writer import BalancedWriter


def session_of(job: Job) -> SparkSession:
    """Return the session that the job wants, or the one that runs already."""
    conf = {name: str(value) for name, value in job.conf.items()}
    if job.packages:
        conf["spark.jars.packages"] = ",".join(job.packages)
    if not is_running():
        conf |= connector_settings(job)
    return session(job.master, conf)


def stage_of(spark: SparkSession, job: Job) -> Stage:
    """Return what the job runs, checked against the columns of its source."""
    return balanced_stream(stream_of(spark, job), job).apply(job.make_operator())


def balanced_stream(rows: DataFrame, job: Job) -> BalancedStream:
    """Group the rows as the job says."""
    channels: Any = job.channels
    plan: Any = job.plan
    return balance(
        rows,
        job.key_columns,
        channels=channels,
        planner=job.planner,
        tolerance=job.tolerance,
        plan=plan,
        interval=job.interval,
        max_move_bytes=job.max_move_bytes,
    )


def start(spark: SparkSession, job: Job) -> BalancedQuery:
    """Start the job, or let it go on from its checkpoint."""
    writer = _to_sink(spark, stage_of(spark, job).writeStream, job)
    if job.follow or job.endless:
        if job.every is not None:
            writer = writer.trigger(processingTime=job.every)
    else:
        writer = writer.trigger(availableNow=True)
    try:
        return writer.start()
    except PySparkException as error:
        raise ArgumentError(f"Spark refuses the job: {first_line(error)}") from None


def _to_sink(spark: SparkSession, writer: BalancedWriter, job: Job) -> BalancedWriter:
    place = job.to_place
    location = job.checkpoint_location
    if location is not None:
        writer = writer.option("checkpointLocation", location)
    if place.kind == "kafka":
        servers, topic = require_kafka(spark, place, "sink")
        options = {"kafka.bootstrap.servers": servers, "topic": topic, **job.sink_options}
        return writer.foreachBatch(lambda rows, _: _send(rows, job.key_columns, options))
    if place.kind in FOLDERS:
        _refuse_strange_output(spark, place.address, location or "")
        writer = writer.option("path", place.address)
    return writer.options(**job.sink_options).format(place.kind)


def _send(rows: DataFrame, key: tuple[str, ...], options: dict[str, Any]) -> None:
    """Send rows as JSON; equal keys go to the same partition of the topic."""
    names = sql.concat_ws(",", *(sql.col(name).cast("string") for name in key if name in rows.columns))
    messages = rows.select(names.alias("key"), sql.to_json(sql.struct("*")).alias("value"))
    messages.write.format("kafka").options(**options).save()


def _refuse_strange_output(spark: SparkSession, folder: str, checkpoint: str) -> None:
    """Refuse a folder with the output of another job: its batches would be overwritten one by one."""
    jvm: Any = spark.sparkContext._jvm
    inner: Any = spark._jsparkSession
    conf = inner.sessionState().newHadoopConf()

    def exists(pattern: str) -> bool:
        path = jvm.org.apache.hadoop.fs.Path(pattern)
        found = path.getFileSystem(conf).globStatus(path)
        return found is not None and len(found) > 0

    if exists(f"{folder}/batch_id=*") and not exists(f"{checkpoint}/offsets"):
        raise ArgumentError(
            "this folder has the output of another job",
            where="sink",
            got=folder,
            hint="choose another folder, or go on from its job with --checkpoint",
        )
