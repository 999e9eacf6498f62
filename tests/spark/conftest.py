"""A session in which Spark alone can run stateful processors, for comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from native_jobs.running import NATIVE_SETTINGS


@pytest.fixture(scope="module")
def rocksdb(spark: Any) -> Iterator[Any]:
    """Give a session whose native queries may have stateful processors, in another time zone than the machine's."""
    wanted = {**NATIVE_SETTINGS, "spark.sql.session.timeZone": "America/New_York"}
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))
