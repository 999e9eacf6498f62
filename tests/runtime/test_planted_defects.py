"""Mistakes planted into the runtime: the model finds each one, makes its schedule small, and can repeat it.

A model that never fails proves nothing. Every defect here is one that a hurried change could bring.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import schedule_shrink
from schedule_drawn import Schedule
from schedule_shrink import command, explained, failure_of
from schedule_world import beginning, smooth_run

from unskew.runtime import channel, log, outcome
from unskew.runtime.engine import Engine
from unskew.runtime.log import RecordLog
from unskew.state.cache import CachePlace
from unskew.state.files import Files


def commit_before_sink(patch: pytest.MonkeyPatch) -> None:
    """The mark comes before the sink: a kill in between loses a batch's output."""
    finish = Engine._finish

    def wrong(self, record, sink, watch=None):  # type: ignore[no-untyped-def]
        self.log.commit(record, self._epoch)
        finish(self, record, sink, watch)

    patch.setattr(Engine, "_finish", wrong)


def sink_before_record(patch: pytest.MonkeyPatch) -> None:
    """The sink sees rows that no record has fixed: another attempt may give it others."""
    prepare, finish = RecordLog.prepare, Engine._finish

    def wrong(self, record, sink, watch=None):  # type: ignore[no-untyped-def]
        sink(record.output, record.batch_id)
        prepare(self.log, record)
        finish(self, record, lambda *_: None, watch)

    patch.setattr(RecordLog, "prepare", lambda self, record: None)
    patch.setattr(Engine, "_finish", wrong)


def overwritten_record(patch: pytest.MonkeyPatch) -> None:
    """A driver does not ask whether there is a later one, and writes over the record that is there."""

    def wrong(self, record):  # type: ignore[no-untyped-def]
        self.files.replace(f"prepared/{record.batch_id}", log.dump(record))

    patch.setattr(RecordLog, "check_epoch", lambda self, epoch: None)
    patch.setattr(RecordLog, "prepare", wrong)


def recomputed_batch(patch: pytest.MonkeyPatch) -> None:
    """A batch that has a record is computed again, and the new record takes the place of the old."""

    def wrong(self, record):  # type: ignore[no-untyped-def]
        self.check_epoch(record.epoch)
        self.files.replace(f"prepared/{record.batch_id}", log.dump(record))

    read = RecordLog.read
    patch.setattr(RecordLog, "prepare", wrong)
    patch.setattr(RecordLog, "read", lambda self, number: read(self, number) if self.is_committed(number) else None)


def moved_keys_stay(patch: pytest.MonkeyPatch) -> None:
    """The channel that loses keys does not forget them."""
    work = channel.ChannelTask._work

    def wrong(self, state, order, mail, outputs):  # type: ignore[no-untyped-def]
        extract = state.extract
        state.extract = lambda keys, slots, keep: _put_back(state, extract(keys, slots, keep=keep))
        return work(self, state, order, mail, outputs)

    def _put_back(state, rows):  # type: ignore[no-untyped-def]
        state.install(rows)
        return rows

    patch.setattr(channel.ChannelTask, "_work", wrong)


def newer_files_swept(patch: pytest.MonkeyPatch) -> None:
    """A sweep takes files of the batch that is running for garbage."""
    forget = RecordLog.forget

    def wrong(self, committed, retained):  # type: ignore[no-untyped-def]
        forget(self, committed, retained)
        named = self._named(committed, retained) or set()
        for place in (f"{folder}/{number}" for folder in ("state", "output") for number in self._numbers(folder)):
            for name in self.files.names(place):
                if f"{place}/{name}" not in named:
                    self.files.remove(f"{place}/{name}")

    patch.setattr(RecordLog, "forget", wrong)


def lost_part(patch: pytest.MonkeyPatch) -> None:
    """One part of a split key is missing when the parts are merged."""
    merge = outcome.merge_partials
    patch.setattr(outcome, "merge_partials", lambda operator, parts: merge(operator, parts[:-1] or parts))


def old_copy_trusted(patch: pytest.MonkeyPatch) -> None:
    """A local copy counts though it is of another commit."""
    take = CachePlace.take

    def wrong(self, nonce):  # type: ignore[no-untyped-def]
        entry = take(self, nonce)
        if entry.manifest is not None:
            entry.manifest = replace(entry.manifest, nonce=nonce)
        return entry

    patch.setattr(CachePlace, "take", wrong)


def other_rows_accepted(patch: pytest.MonkeyPatch) -> None:
    """A record counts though Spark has planned the batch anew."""
    patch.setattr(Engine, "_check_same", lambda self, facts, fingerprint, folder: None)


def late_listing_believed(patch: pytest.MonkeyPatch) -> None:
    """A start believes a listing that does not show the last commits yet."""

    def wrong(self):  # type: ignore[no-untyped-def]
        prepared, committed = (max(self._numbers(folder), default=-1) for folder in ("prepared", "commit"))
        return max(prepared, committed), committed

    patch.setattr(RecordLog, "last", wrong)


def failed_create_is_lost(patch: pytest.MonkeyPatch) -> None:
    """A create that failed after its effect counts as somebody else's."""

    def wrong(self, name, data):  # type: ignore[no-untyped-def]
        for _ in range(2):
            try:
                return self._place.create(name, data)
            except OSError:
                continue
        return False

    patch.setattr(Files, "create", wrong)


Plant = Callable[[pytest.MonkeyPatch], None]
DEFECTS: dict[Plant, list[int | str]] = {
    commit_before_sink: [10, *range(60)],
    sink_before_record: [4, *range(60)],
    overwritten_record: [4, *range(60)],
    recomputed_batch: [10, *range(60)],
    moved_keys_stay: [0, *range(60)],
    newer_files_swept: [578, *range(575, 650)],
    lost_part: [100, *range(75, 125)],
    old_copy_trusted: [f"-1 copies=True starts=again@{moment}" for moment in (39, *range(20, 60))],
    other_rows_accepted: [6, *range(60)],
    late_listing_believed: [f"-1 smooth=0 late=True starts=die@{moment}" for moment in (124, *range(80, 200, 3))],
    failed_create_is_lost: [f"-1 starts=unsaid@{moment}" for moment in (68, *range(40, 90))],
}
"""Each with schedules that may find it. The first one does; the others are for a runtime whose moments have changed."""


@pytest.fixture
def planted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Plant a defect, and remember nothing of runs without it or with it."""
    remembered = (beginning, smooth_run)
    for each in remembered:
        each.cache_clear()
    request.param(monkeypatch)
    yield request.param
    for each in remembered:
        each.cache_clear()


def first_failing(plant: Plant) -> Schedule:
    """Return the first schedule that fails."""
    for schedule in map(Schedule.read, map(str, DEFECTS[plant])):
        if (error := failure_of(schedule)) is not None:
            print(f"{plant.__name__}: schedule {schedule} finds it: {error}")
            return schedule
    raise AssertionError("the model has not found it")


@pytest.mark.parametrize("planted", DEFECTS, ids=lambda plant: plant.__name__, indirect=True)
def test_the_model_finds_a_defect(planted: Plant) -> None:
    first_failing(planted)


def shrunk(planted: Plant) -> tuple[Schedule, Schedule]:
    """Return a schedule that fails and the one that its failure names; both must fail alike."""
    found = first_failing(planted)
    error = explained(found)
    assert error is not None
    said = error.__notes__[-1].strip()
    program, script, *arguments = shlex.split(said)
    assert (program, script) == (".venv/bin/python", "tests/runtime/test_schedules.py")
    small = Schedule.read(" ".join(arguments))
    assert command(small) == said
    again = failure_of(small)
    assert type(again) is type(error) and str(again) == str(error), "the command does not repeat the failure"
    print(f"{planted.__name__}: {small}: {again}")
    return found, small


def size(schedule: Schedule) -> tuple[int, int, int]:
    """Return batches, rows and troubles."""
    batches = schedule.story.batches[: schedule.last + 1]
    return len(batches), sum(len(rows) for _, rows in batches), sum(len(each.split("+")) for each in schedule.starts)


@pytest.mark.parametrize("planted", [lost_part], ids=lambda plant: plant.__name__, indirect=True)
def test_a_failure_becomes_smaller_and_names_a_command(planted: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule_shrink, "MOST_TRIES", 25)
    found, small = shrunk(planted)
    assert all(after <= before for after, before in zip(size(small), size(found), strict=True))
    assert sum(size(small)) < sum(size(found))


@pytest.mark.slow
@pytest.mark.parametrize("planted", DEFECTS, ids=lambda plant: plant.__name__, indirect=True)
def test_every_failure_becomes_small(planted: Plant) -> None:
    """At most three batches and three troubles show each, and eight rows, or half of them where listings are late.

    What a late listing hides depends on the number of operations before it, and so on every row.
    """
    found, small = shrunk(planted)
    batches, rows, troubles = size(small)
    assert batches <= 3 and troubles <= 3
    assert rows <= (size(found)[1] // 2 if found.late else 8)
