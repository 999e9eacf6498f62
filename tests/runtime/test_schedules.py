"""Whatever dies, fails, pauses or repeats itself, and whenever: output, state and files are exact.

A schedule that fails names its seed; this plays it again and tells every moment of it:

    .venv/bin/python tests/runtime/test_schedules.py SEED
"""

from __future__ import annotations

import gc
import sys
from collections import Counter

import numpy as np
import pytest
from schedule_troubles import DIE, FAIL, Shared, in_a_world_of
from schedule_world import (
    SLOTS,
    Driver,
    RandomMoves,
    Story,
    World,
    check,
    check_not_wrong,
    drawn_batches,
    figures_of,
    play,
    smooth_run,
)

from unskew.runtime.history import History
from unskew.runtime.settings import Channels, Keeping, Planning, Settings, Splitting

QUICK, MANY, AT_ONCE = 2000, 20_000, 250


def play_all(seeds: range) -> None:
    """Play schedules."""
    total = Counter[str]()
    gc.disable()  # a sixth of the time
    try:
        for seed in seeds:
            try:
                total.update(figures_of(play(seed)))
            except BaseException as error:
                error.add_note(f"schedule {seed}; again: {sys.executable} {__file__} {seed}")
                raise
    finally:
        gc.enable()
    print(f"{len(seeds)} schedules: {dict(total)}")
    assert total["struck"] > len(seeds) // 3
    assert total["fenced"] > len(seeds) // 20


@pytest.mark.parametrize("first", range(0, QUICK, AT_ONCE))
def test_random_schedules_end_exactly(first: int) -> None:
    play_all(range(first, first + AT_ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, QUICK + MANY, 4 * AT_ONCE))
def test_many_more_random_schedules_end_exactly(first: int) -> None:
    play_all(range(first, first + 4 * AT_ONCE))


class Small(World):
    """Three batches of one split key and a few whole ones: they move, a slot moves, then there are fewer channels."""

    def before_batch(self, driver: Driver, number: int) -> None:
        if number == 2:
            driver.engine.log.ask(channels=2)
        driver.engine.settings = self.settings(driver.rng)

    def settings(self, rng: np.random.Generator) -> Settings:
        planning = Planning(RandomMoves(seed=5), min_gain=-np.inf)
        keeping = Keeping(cache_bytes=0, records=1, inline_bytes=0)
        return Settings(Channels(3, slots=SLOTS), planning, Splitting(auto=True), keeping)


def small_world(
    last: int, contents: dict[str, bytes], shown: dict[int, list[dict[str, object]]], far: bool = False
) -> Small:
    """Return the small case before its last batch, or before the first."""
    batches = drawn_batches(np.random.default_rng(11), 3)
    story = Story(0, "integers", batches, shuffled=False, scheme=None, splits=True, channels=3)
    return Small(
        story, np.random.default_rng(0), last, 1, 0.0, None, Shared(dict(contents)), dict(shown), last - 1, far
    )


@pytest.mark.parametrize("far", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("trouble", [DIE, pytest.param(FAIL, marks=pytest.mark.slow)])
def test_a_failure_at_every_single_operation(trouble: str, far: bool) -> None:
    """Every operation of a driver, of its tasks and of the sink: once before its effect, and once after it.

    If the disk is far, tasks cannot reach it; without local copies they miss their state in every batch.
    """
    with in_a_world_of(np.random.default_rng(0), sweep_every=1):
        world = small_world(2, {}, {}, far)
        world.committed = -1
        smooth = smooth_run(world, 3)
        figures = list(History(world.log.files).refresh().values())
        assert [each.channels for each in figures] == [3, 3, 2]
        assert all(each.split_keys for each in figures), "a key is split throughout"
        assert all(each.moved_keys and each.moved_slots and each.moved_bytes for each in figures[1:])
        failures = Counter[str]()
        for number in range(3):
            moment = 0
            while True:
                moment += 1
                again = small_world(number, smooth.disks[number], smooth.shown[number], far)
                first = again.start({moment: trouble})
                first.run()
                if not first.gate.struck:
                    break
                struck = next(what for what in first.gate.trace if what.endswith(f"({trouble})"))
                failures[" ".join(struck.split()[:2])] += 1
                try:
                    while again.committed < number:
                        again.start({}).run()
                        check_not_wrong(again)
                    check(again)
                except BaseException as error:
                    error.add_note(f"batch {number}, moment {moment}: {struck}")
                    raise
    print(f"{sum(failures.values())} failures ({trouble}): {dict(failures)}")
    assert sum(failures.values()) > 200


if __name__ == "__main__":
    play(int(sys.argv[1]), tell=print)
