"""Fixtures shared by all tests: one Spark session per test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# compiled kernels make the first example slow, and so does a busy machine; the same examples on every machine make a
# failure everybody's failure
settings.register_profile("all", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("all"), max_examples=25)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of each property where the long tests are left out."""
    settings.load_profile("quick" if "not slow" in config.option.markexpr else "all")


LONGEST = ("/exactness/", "runtime/test_schedules")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests where two processes begin, so that none is left alone with one at the end.

    Each process begins with one half of the tests, and takes over some of the other's when it has no more.
    """
    longest = [item for item in items if any(name in item.nodeid for name in LONGEST)]
    rest = [item for item in items if item not in set(longest)]
    middle = len(items) // 2
    items[:] = longest[::2] + rest[: middle - len(longest[::2])] + longest[1::2] + rest[middle - len(longest[::2]) :]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """Give a local session with unskew's own defaults, started at first use and shared by all tests."""
    from unskew.spark.local_session import SHORT_RUN, session

    # folders of its own: local copies of state have one budget in a folder, and others would use it up
    folders = {"spark.sql.warehouse.dir": "warehouse", "spark.local.dir": "local"}
    own = {name: str(tmp_path_factory.mktemp(folder)) for name, folder in folders.items()}
    spark = session(master="local[2,4]", config={**SHORT_RUN, **own})
    yield spark
    spark.stop()
