"""One broker for all tests that need one; without network and without jars kept from before they are skipped."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from unskew.errors import MissingPackageError
from unskew.kafka.broker import Broker, start
from unskew.kafka.jars import broker_jars, connector_jars


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    pytest.importorskip("confluent_kafka")
    try:
        broker_jars()
        connector_jars()
    except MissingPackageError as error:
        pytest.skip(str(error))
    with start(tmp_path_factory.mktemp("kafka"), short_run=True) as running:
        yield running


@pytest.fixture
def new_topic(broker: Broker, request: pytest.FixtureRequest) -> Callable[..., str]:
    """Create topics with names of their own, with so many partitions and these settings."""
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    numbers = itertools.count()

    def create(partitions: int, settings: dict[str, str] | None = None) -> str:
        name = f"{request.node.name.replace('[', '-').replace(']', '')}-{next(numbers)}"
        admin.create_topics([NewTopic(name, partitions, 1, config=settings or {})])[name].result(30)
        return name

    return create
