"""Whether Spark's connector for Kafka is there."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from unskew.errors import MissingPackageError
from unskew.jobs.places import Place

CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


def require_kafka(spark: SparkSession, place: Place, role: str) -> tuple[str, str]:
    """Return servers and topic of a place, or say how to get the connector."""
    servers_and_topic = place.servers_and_topic(role)
    jvm: Any = spark.sparkContext._jvm
    try:
        jvm.org.apache.spark.util.Utils.classForName(CONNECTOR, True, True)
    except (Py4JError, TypeError):
        package = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{spark.version}"
        raise MissingPackageError(
            "Spark's connector for Kafka is not there", where=role, got=str(place), hint=f"add --package {package}"
        ) from None
    return servers_and_topic
