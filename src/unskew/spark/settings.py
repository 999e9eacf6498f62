"""Settings of a session for the length of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pyspark.sql import SparkSession


@contextlib.contextmanager
def session_settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Change settings of a session, and put them back afterwards."""
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        with contextlib.suppress(Exception):  # a query that is being stopped may no longer listen
            for name, value in before.items():
                spark.conf.set(name, value)
