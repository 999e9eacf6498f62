"""Spark's connector for Kafka, for jobs that read or write a topic."""

from __future__ import annotations

from pyspark.sql import SparkSession

from unskew.errors import MissingPackageError
from unskew.jobs.job import Job
from unskew.jobs.places import Place
from unskew.kafka.jars import SETTINGS_VARIABLE, connector_jars
from unskew.kafka.spark_kafka import ensure_connector


def connector_settings(job: Job) -> dict[str, str]:
    """Return the settings with which a new session has the connector, if the job needs it and brings none.

    The jars are fetched at first use, and kept; see `unskew.kafka.jars`.
    """
    needed = "kafka" in {job.from_place.kind, job.to_place.kind}
    if not needed or any("spark-sql-kafka" in package for package in job.packages):
        return {}
    own = [str(job.conf["spark.jars"])] if job.conf.get("spark.jars") else []
    return {"spark.jars": ",".join([*own, *(str(jar) for jar in connector_jars())])}


def require_kafka(spark: SparkSession, place: Place, role: str) -> tuple[str, str]:
    """Return servers and topic of a place; a running session without the connector gets it."""
    servers_and_topic = place.servers_and_topic(role)
    try:
        ensure_connector(spark)
    except MissingPackageError as error:
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise MissingPackageError(
            f"Spark's connector for Kafka is not there: {error.what}",
            where=role,
            got=str(place),
            hint=f"add --package {package}, or let {SETTINGS_VARIABLE} name your mirror",
        ) from None
    return servers_and_topic
