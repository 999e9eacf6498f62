"""A session of Spark Connect, which cannot share a process with a classic one: see `test_connect_suite`."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ASKED_FOR = "UNSKEW_TEST_CONNECT"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave these tests to a process that is for Connect alone."""
    if ASKED_FOR not in os.environ:
        here = Path(__file__).parent
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="runs in a process of its own: make test-connect"))


@pytest.fixture(scope="session")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Start a Connect server on this machine, and a session on it."""
    from pyspark.sql import SparkSession

    from unskew.java import find_java
    from unskew.spark.local_session import DEFAULTS, LOCAL_CHECKPOINTS, SHORT_RUN

    os.environ["PYSPARK_PYTHON"] = sys.executable
    # tasks import the functions of this folder by name
    paths = [str(Path(__file__).parents[3]), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    java = find_java()
    if java is not None:
        os.environ.setdefault("JAVA_HOME", str(java.home))
    warehouse = str(tmp_path_factory.mktemp("warehouse"))
    settings = {**DEFAULTS, **LOCAL_CHECKPOINTS, **SHORT_RUN, "spark.sql.warehouse.dir": warehouse}
    settings |= dict.fromkeys(("spark.driver.bindAddress", "spark.driver.host"), "127.0.0.1")
    settings |= {"spark.api.mode": "connect", "spark.log.level": "OFF"}
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the server has its own settings from the start, and says so of each
        spark = builder.getOrCreate()
    yield spark
    spark.stop()
