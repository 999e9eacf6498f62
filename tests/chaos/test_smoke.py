"""A few kills of each kind, and one of each kind of fault, on a real Spark; `make chaos` does it a thousand times."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.faults import possible
from chaos.processes import archive_classes
from chaos.rounds import CLUSTER, LOCAL, Round, Strike, drawn
from chaos.run import Run

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module", autouse=True)
def archived() -> None:
    archive_classes()


@pytest.mark.parametrize("query", ["chain", "totals", "windows", "sessions", "lives"])
def test_a_few_kills_change_nothing(query: str, tmp_path: Path) -> None:
    cluster = query == "totals"
    second = Strike(1, "executor" if cluster else "driver", "work" if cluster else "record-linked", 0.5)
    strikes = (Strike(0, "worker", "tasks", 0.5), second, Strike(2, "worker", "tasks", 0.2))
    round_ = Round(3, 0, query, CLUSTER if cluster else LOCAL, "foreachBatch", False, 9, strikes)
    result = Run(round_, tmp_path / "round").play()
    assert result.verdict == "exact"
    assert {kill.victim for kill in result.kills} == {strike.victim for strike in strikes}


@pytest.mark.parametrize("fault", possible())
def test_a_fault_is_survived_or_stops_the_query_with_its_cure(fault: str, tmp_path: Path) -> None:
    round_ = drawn(5, 2, (fault,), kills=0)
    assert round_.fault == fault
    result = Run(round_, tmp_path / "round").play(possible()[fault])
    assert result.verdict == "exact"
    assert result.faults, "nothing was done"
