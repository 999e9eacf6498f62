"""Fixtures shared by all tests: one Spark session per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

# compiled kernels make the first example slow; the same examples on every machine make a failure everybody's failure
settings.register_profile("unskew", deadline=None, derandomize=True)
settings.load_profile("unskew")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Give a local session with unskew's own defaults, started at first use and shared by all tests."""
    from unskew.spark.session import SHORT_RUN, session

    warehouse = tmp_path_factory.mktemp("warehouse")
    spark = session(master="local[2,4]", config={**SHORT_RUN, "spark.sql.warehouse.dir": str(warehouse)})
    yield spark
    spark.stop()
