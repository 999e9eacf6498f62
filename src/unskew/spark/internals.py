"""What unskew needs of Spark beyond its public API; one function each, with a contract test each."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def java_and_hadoop(spark: SparkSession) -> tuple[Any, Any]:
    """Return the driver's JVM, as Py4J shows it, and Hadoop's settings with those of the session."""
    session: Any = spark
    return session._jvm, session._jsparkSession.sessionState().newHadoopConf()
