"""What the gateway's log keeps, for whom, and for how long."""

from __future__ import annotations

from pathlib import Path

import pytest

from unskew.errors import CheckpointError, FormatError
from unskew.kafka.decision_log import DecisionLog
from unskew.state.files import Files


@pytest.fixture
def log(tmp_path: Path) -> DecisionLog:
    return DecisionLog(Files(str(tmp_path)))


def plan(checkpoint: Path, batch_id: int, folder: str = "offsets") -> None:
    """Write what Spark writes, with the checksum beside it."""
    (checkpoint / folder).mkdir(exist_ok=True)
    (checkpoint / folder / str(batch_id)).touch()
    (checkpoint / folder / f".{batch_id}.crc").touch()


def test_the_first_decision_wins_until_it_is_overruled(log) -> None:
    assert log.write(3, b"first")
    assert not log.write(3, b"first"), "equal contents of another writer are not one's own"
    for later in (b"second", b"third"):
        log.overrule(3, later)
        assert log.read(3) == later
    assert not log.write(3, b"late")
    log.overrule(4, b"at once")
    assert (log.read(3), log.read(4)) == (b"third", b"at once")


def test_attempts_are_counted_as_numbers(log) -> None:
    for attempt in range(12):
        log.overrule(1, b"%d" % attempt)
    log.overrule(11, b"other")
    assert log.read(1) == b"11"


def test_decisions_of_the_past_are_removed_every_few_batches(log, tmp_path) -> None:
    for batch_id in range(21):
        log.write(batch_id, b"decision")
    log.overrule(2, b"decision")
    log.forget_before(19)
    assert log.read(0) == b"decision"
    log.forget_before(20)
    kept = sorted(int(path.name.split(".")[0]) for path in (tmp_path / "unskew" / "decisions").iterdir())
    assert kept == list(range(15, 21))


def test_a_start_that_planned_no_batch_does_not_say_which_query_it_is(log, tmp_path) -> None:
    log.identify({"topic": "a", "gateway": [0, 1]})
    log.identify({"topic": "b", "gateway": [0, 1]})
    plan(tmp_path, 0)
    log.identify({"topic": "b", "gateway": [0, 1]})
    with pytest.raises(CheckpointError, match=r"written with gateway = \[0, 1\], got \[0, 2\]"):
        log.identify({"topic": "b", "gateway": [0, 2]})


def test_the_last_planned_batch_is_sparks(log, tmp_path) -> None:
    assert log.last_planned() == -1
    for batch_id in range(11):
        plan(tmp_path, batch_id)
    plan(tmp_path, 9, "commits")
    assert log.last_planned() == 10


def test_a_damaged_or_missing_decision_is_named(log, tmp_path) -> None:
    with pytest.raises(CheckpointError, match=r"does not exist \(in .*unskew/decisions/5\.0\)"):
        log.read(5)
    log.write(5, b"decision")
    file = tmp_path / "unskew" / "decisions" / "5.0"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(FormatError, match=r"do not match their checksum \(in .*unskew/decisions/5\.0\)"):
        log.read(5)
