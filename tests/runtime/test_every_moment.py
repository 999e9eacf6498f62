"""Every kind of trouble at every single moment of the small case, for every operator: all of them, counted."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator

import pytest
from schedule_drawn import Schedule
from schedule_operators import KINDS
from schedule_shrink import explained
from schedule_troubles import AGAIN, DIE, DOWN, FAIL, LOSE, TASK_DIES, TWICE
from schedule_world import World, play

from unskew.runtime.history import History

TASKS = ("prepare", "route", "worker", "give", "channels", "whole")
PAUSE = "pause"
WITH_COPIES = (LOSE, TASK_DIES, TWICE, AGAIN)
EVERY = (DIE, FAIL, DOWN, LOSE, TASK_DIES, TWICE, AGAIN, PAUSE)


def moments_for(trouble: str, trace: list[str]) -> Iterator[int]:
    """Yield the moments at which a trouble can strike, of those that a batch without trouble has."""
    in_task = False
    for moment, what in enumerate(trace, 1):
        when, operation = what.split()[:2] if " " in what else ("", what)
        begins, ends = (when == each and operation in TASKS for each in ("before", "after"))
        in_task = in_task or begins
        of_files = operation in ("create", "write", "replace", "read", "list", "look", "remove")
        strikes = {FAIL: of_files, DOWN: of_files, TASK_DIES: in_task, TWICE: begins, AGAIN: begins}
        if strikes.get(trouble, True):
            yield moment
        in_task = in_task and not ends


def strike_every_moment(kind: str, trouble: str, far: bool = False) -> Counter[str]:
    """Play the small case once for every moment of each of its batches."""
    struck = Counter[str]()
    gc.disable()
    try:
        for last in range(3):
            smooth = Schedule.small(kind, last, far=far, copies=trouble in WITH_COPIES)
            for moment in moments_for(trouble, play(smooth).drivers[0].gate.trace):
                schedule = smooth.having(starts=(f"{trouble}@{moment}",))
                try:
                    world = play(schedule)
                except Exception as error:
                    raise explained(schedule) or error from None
                struck[_what_struck(world, trouble, moment)] += 1
    finally:
        gc.enable()
    print(f"{kind}: {sum(struck.values())} times {trouble}{' far away' if far else ''}: {dict(struck)}")
    return struck


def _what_struck(world: World, trouble: str, moment: int) -> str:
    """Return the operation that was struck; it must have been one."""
    trace = world.drivers[0].gate.trace
    if trouble == PAUSE:
        assert world.seen["two drivers"], "the driver was not paused"
    else:
        assert any(f"({trouble})" in what for what in trace), f"{trouble} did not strike"
    return " ".join(trace[moment - 1].split()[:2])


def test_the_small_case_moves_splits_and_shrinks() -> None:
    world = play(Schedule.small("integers", 0).having(last=2))
    figures = list(History(world.log.files).refresh().values())
    assert [each.channels for each in figures] == [3, 3, 2]
    assert all(each.split_keys for each in figures), "a key is split throughout"
    assert all(each.moved_keys and each.moved_slots and each.moved_bytes for each in figures[1:])


@pytest.mark.parametrize(("kind", "trouble"), [("integers", DIE)])
def test_trouble_at_every_single_moment(kind: str, trouble: str) -> None:
    assert strike_every_moment(kind, trouble).total() > 150


@pytest.mark.slow
@pytest.mark.parametrize("trouble", EVERY)
@pytest.mark.parametrize("kind", KINDS)
def test_every_trouble_at_every_single_moment_of_every_operator(kind: str, trouble: str) -> None:
    assert strike_every_moment(kind, trouble).total() >= 6


@pytest.mark.slow
@pytest.mark.parametrize("trouble", EVERY)
@pytest.mark.parametrize("kind", ["integers", "chain-event"])
def test_every_trouble_where_tasks_cannot_reach_the_files(kind: str, trouble: str) -> None:
    """Without local copies, tasks miss their state in every batch; it is brought to them."""
    assert strike_every_moment(kind, trouble, far=True).total() >= 6
