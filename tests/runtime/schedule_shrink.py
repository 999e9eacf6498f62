"""Find the smallest schedule that still fails, and the command that repeats it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from schedule_drawn import CALM, SMALL, Schedule
from schedule_world import play

MOST_TRIES = 800
MOST_MOMENTS = 150

Failure = Callable[[Schedule], BaseException | None]


def failure_of(schedule: Schedule) -> BaseException | None:
    """Play a schedule; return what went wrong."""
    try:
        play(schedule)
    except Exception as error:
        return error
    return None


def command(schedule: Schedule) -> str:
    """Return the command that plays a schedule again and tells every moment of it."""
    return shlex.join([".venv/bin/python", "tests/runtime/test_schedules.py", *str(schedule).split(" ")])


def explained(schedule: Schedule, failure: Failure = failure_of) -> BaseException | None:
    """Play a schedule; if it fails, return the failure of the smallest one found, with the command that repeats it."""
    error = failure(schedule)
    if error is None:
        return None
    search = Search(schedule, error, failure)
    search.run()
    search.error.add_note(f"schedule {schedule.seed} fails; the smallest that still does, of {search.tries} tried:")
    search.error.add_note(f"    {command(search.schedule)}")
    return search.error


@dataclass(eq=False)
class Search:
    """Tries smaller schedules; the smallest so far that fails with the same kind of error is `schedule`."""

    schedule: Schedule
    error: BaseException
    failure: Failure = failure_of
    tries: int = 0
    _tried: set[Schedule] = field(default_factory=set)

    def run(self) -> None:
        """Go on until nothing smaller fails, or there were too many tries."""
        smaller = True
        while smaller and self.tries < MOST_TRIES:
            smaller = False
            for ways in (_fewer_troubles, _fewer_batches, _simpler, _calmer, _fewer_rows):
                while any(self._becomes(candidate) for candidate in ways(self.schedule)):
                    smaller = True

    def _becomes(self, candidate: Schedule) -> bool:
        """Take a candidate if it fails; with less to do or a plainer world, its trouble may come elsewhere."""
        if self._fails(candidate):
            return True
        one = len(candidate.starts) > 0 and "+" not in candidate.starts[0] and "@" in candidate.starts[0]
        emptied = _empty_batches(candidate) > _empty_batches(self.schedule)
        calmed = candidate.story.calm == CALM != self.schedule.story.calm
        if not (one and (emptied or calmed or candidate.smooth != self.schedule.smooth)):
            return False
        kind, _, rest = candidate.starts[0].partition("@")
        turns = rest.lstrip("0123456789")
        elsewhere = (
            candidate.having(starts=(f"{kind}@{at}{turns}", *candidate.starts[1:])) for at in range(1, MOST_MOMENTS)
        )
        return any(self._fails(each) for each in elsewhere)

    def _fails(self, candidate: Schedule) -> bool:
        if self.tries >= MOST_TRIES or candidate in self._tried:
            return False
        self.tries += 1
        self._tried.add(candidate)
        error = self.failure(candidate)
        if type(error) is not type(self.error):
            return False
        assert error is not None
        self.schedule, self.error = candidate, error
        return True


def _empty_batches(schedule: Schedule) -> int:
    return sum(not rows for _, rows in schedule.story.batches)


def _fewer_troubles(schedule: Schedule) -> Iterator[Schedule]:
    starts = schedule.starts
    if starts:
        yield schedule.having(starts=())
    for place, start in enumerate(starts):
        yield schedule.having(starts=starts[:place] + starts[place + 1 :])
        for mark in ("+", "/"):
            parts = start.split(mark)
            for number in range(mark == "/", len(parts) if len(parts) > 1 else 0):
                less = mark.join(parts[:number] + parts[number + 1 :])
                yield schedule.having(starts=(*starts[:place], less, *starts[place + 1 :]))


def _fewer_batches(schedule: Schedule) -> Iterator[Schedule]:
    batches, smooth, last = schedule.story.batches, schedule.smooth, schedule.last
    if last + 1 < len(batches):
        yield schedule.having(batches=batches[: last + 1])
    if smooth < last:
        yield schedule.having(last=smooth)
    for place in range(last + 1 if last else 0):
        fewer = batches[:place] + batches[place + 1 :]
        yield schedule.having(batches=fewer, smooth=min(smooth - (place < smooth), last - 1), last=last - 1)


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    plain = {"late": False, "copies": False, "far": False, "pieces": False, "shuffled": False, "scheme": ""}
    plain |= {"records": 10, "sweep_every": 100} if schedule.seed != SMALL else {}
    for name, value in plain.items():
        changed = schedule.having(**{name: value})
        if changed != schedule:
            yield changed
    for channels in range(1, schedule.story.channels):
        yield schedule.having(channels=channels)


def _calmer(schedule: Schedule) -> Iterator[Schedule]:
    calm = schedule.story.calm
    if schedule.seed != SMALL and calm != CALM:
        yield schedule.having(calm=CALM)
        for name in CALM:
            if name not in calm:
                yield schedule.having(calm=tuple(each for each in CALM if each in calm or each == name))


def _fewer_rows(schedule: Schedule) -> Iterator[Schedule]:
    batches = schedule.story.batches
    for place, (number, rows) in enumerate(batches[: schedule.last + 1]):
        length = len(rows)
        while length:
            for first in range(0, len(rows), length):
                fewer = (number, rows[:first] + rows[first + length :])
                yield schedule.having(batches=(*batches[:place], fewer, *batches[place + 1 :]))
            length //= 2
