"""What a Spark session needs for Kafka and for Delta, and what to say where it is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from unskew.errors import MissingPackageError
from unskew.jobs.job import Job
from unskew.jobs.places import Place
from unskew.kafka.jars import SETTINGS_VARIABLE, connector_jars
from unskew.kafka.spark_kafka import ensure_connector
from unskew.spark.sinks import is_installed

DELTA_PACKAGE = "io.delta:delta-spark_2.13:VERSION"
DELTA_CLASS = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
DELTA_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": DELTA_CLASS,
}


def connector_settings(job: Job) -> dict[str, str]:
    """Return the settings that a new session needs for the job's source and sink.

    Kafka's jars are fetched at first use, and kept; see `unskew.kafka.jars`. Delta's are the user's to name.
    """
    kinds = {job.from_place.kind, job.to_place.kind}
    settings = {}
    if "delta" in kinds:
        settings = {name: value for name, value in DELTA_SETTINGS.items() if name not in job.conf}
    if "kafka" in kinds and not any("spark-sql-kafka" in package for package in job.packages):
        own = [str(job.conf["spark.jars"])] if job.conf.get("spark.jars") else []
        settings["spark.jars"] = ",".join([*own, *map(str, connector_jars())])
    return settings


def require_kafka(spark: SparkSession, place: Place, role: str) -> tuple[str, str]:
    """Return servers and topic of a place; a running session without the connector gets it."""
    servers_and_topic = place.servers_and_topic(role)
    try:
        ensure_connector(spark)
    except MissingPackageError as error:
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise MissingPackageError(
            f"Spark's connector for Kafka is missing: {error.what}",
            where=role,
            got=str(place),
            hint=f"add --package {package}, or let {SETTINGS_VARIABLE} name your mirror",
        ) from None
    return servers_and_topic


def require_delta(job: Job, spark: SparkSession | None = None) -> None:
    """Refuse a Delta sink if the session has no Delta, or if nothing brings it to a session that is still to start."""
    if job.to_place.kind != "delta":
        return
    if not (_brings_delta(job) if spark is None else is_installed(spark, "delta")):
        raise MissingPackageError(
            "the Delta package for Spark is missing",
            where="sink",
            got=job.sink,
            hint=f"add --package {DELTA_PACKAGE}, with the version that fits your Spark",
        )


def _brings_delta(job: Job) -> bool:
    named = [str(value) for name, value in job.conf.items() if "jars" in name or name.endswith("extraClassPath")]
    brought = [*job.packages, *named, os.environ.get("PYSPARK_SUBMIT_ARGS", "")]
    return any("delta" in each for each in brought) or _spark_has_delta()


def _spark_has_delta() -> bool:
    """Look for Delta among the jars and the default settings of the Spark that a session of ours starts."""
    home = Path(pyspark.__path__[0])
    defaults = home / "conf" / "spark-defaults.conf"
    return any((home / "jars").glob("delta-*.jar")) or (defaults.exists() and "delta" in defaults.read_text())
