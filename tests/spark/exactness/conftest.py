"""Long runs start Spark hundreds of times: they begin by archiving its classes."""

import pytest

from chaos.processes import archive_classes


@pytest.fixture(autouse=True)
def archived_classes(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("slow"):
        archive_classes()
