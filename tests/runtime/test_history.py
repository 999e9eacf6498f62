"""The figures of all batches: written by the driver, read by anybody, never a reason to stop."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from unskew.operators import Aggregate
from unskew.planners import planner
from unskew.runtime import history
from unskew.runtime.engine import Engine
from unskew.runtime.history import BATCHES_PER_FILE, History
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.settings import Channels, Planning, Settings
from unskew.state.files import Files
from unskew.testing.jobs import LocalJobs
from unskew.testing.place import MemoryFiles, MemoryPlace

ROWS = pa.table({"key": ["ada"] * 50 + [f"k{i}" for i in range(50)]})


@dataclass(eq=False)
class Fragile(MemoryPlace):
    """A disk that cannot keep a history while it is `broken`."""

    broken: bool = field(default=False)

    def replace(self, name: str, data: bytes) -> None:
        if self.broken and name.startswith("history/"):
            raise OSError("no space left")
        super().replace(name, data)


def started(files: Files, **planning) -> Engine:
    settings = Settings(Channels(3, slots=16), Planning(planner("mixed"), **planning))
    return Engine(Aggregate(n="count").bind(ROWS.schema, ("key",)), settings, RecordLog(files), "q")


def run(engine: Engine, number: int, rows: pa.Table = ROWS, time_ms: int = 0) -> None:
    engine.run(Facts(number, f"batch {number}", time_ms), LocalJobs([rows]), lambda output, batch_id: None)


def test_every_batch_has_a_line_and_a_later_start_adds_to_it(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    engine = started(files, min_gain=-1.0)
    for number in range(3):
        run(engine, number, time_ms=1000 * number)
    run(started(files), 3)
    reader = History(files)
    assert [*reader.refresh()] == [0, 1, 2, 3]
    first = reader.refresh()[1]
    assert (first.rows, first.time_ms, first.way, first.cores) == (100, 1000, "counted", 2)
    assert {"count", "plan", "work", "record", "sink", "commit"} == set(first.seconds)
    assert files.names("history") == ["0.jsonl.gz"]


def test_a_reader_gets_what_is_new(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    engine, reader = started(files), History(files)
    assert reader.refresh() == {}
    for number in range(BATCHES_PER_FILE + 2):
        run(engine, number)
        assert [*reader.refresh()][-1] == number
    assert len(reader.refresh()) == BATCHES_PER_FILE + 2
    assert [*History(files, 3).refresh()] == [BATCHES_PER_FILE - 1, BATCHES_PER_FILE, BATCHES_PER_FILE + 1]


def test_a_query_goes_on_without_its_history(caplog: pytest.LogCaptureFixture) -> None:
    place = Fragile()
    files = MemoryFiles("/ck", place)
    engine = started(files)
    run(engine, 0)
    place.broken = True
    with caplog.at_level(logging.WARNING):
        run(engine, 1)
    assert "the history lacks batch 1" in caplog.text
    assert [*History(files).refresh()] == [0]
    place.broken = False
    run(engine, 2)
    assert [*History(files).refresh()] == [0, 1, 2], "what could not be written goes out with the next line"


def test_a_driver_that_died_after_the_commit_is_made_up_for() -> None:
    place = Fragile()
    files = MemoryFiles("/ck", place)
    engine = started(files)
    run(engine, 0)
    place.broken = True
    run(engine, 1)
    place.broken = False
    run(started(files), 2)
    assert [*History(files).refresh()] == [0, 1, 2], "the record of the last batch has its figures"


def test_a_damaged_file_hides_its_end_and_nothing_else(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    engine = started(files)
    for number in range(3):
        run(engine, number)
    path = tmp_path / "history" / "0.jsonl.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert [*History(files).refresh()] == [0, 1]
    path.write_bytes(b"not a history")
    assert History(files).refresh() == {}


def test_old_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "BATCHES_PER_FILE", 4)
    monkeypatch.setattr(history, "BATCHES_KEPT", 10)
    files = Files(str(tmp_path))
    engine = started(files)
    for number in range(31):
        run(engine, number)
    assert [*History(files).refresh()] == list(range(20, 31)), "the file that has batch 21 has batch 20, too"
    assert history.numbers(files) == [5, 6, 7]
