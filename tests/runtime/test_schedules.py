"""Whatever dies, fails, pauses or repeats itself, and whenever: output, state and files are exact.

A schedule that fails is made as small as possible, and the failure ends with a command that plays the small one again
and tells every moment of it. It works for any schedule:

    .venv/bin/python tests/runtime/test_schedules.py SEED
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from schedule_drawn import Schedule
from schedule_operators import KINDS
from schedule_shrink import explained
from schedule_world import play

from unskew.jobs.operators import known_operators

QUICK, MANY, AT_ONCE = 2000, 100_000, 500

OCCURS = (
    *(
        "moved keys",
        "moved slots",
        "split keys",
        "more channels",
        "fewer channels",
        "time-outs",
        "late rows",
        "spilled",
    ),
    *("driver died", "two drivers", "fenced off", "rows given again", "rows drained", "output in files", "far"),
    *("task died", "task ran twice", "task ran again", "local copies lost", "state from copy", "state from store"),
    *("late listing", "storage down", "write failed after its effect", "list failed", "read failed"),
    *("way counted", "way direct", "way whole", "way empty", "scheme none", "scheme auto"),
)
"""What must have happened in any 500 schedules in a row, which are about every operator."""

OCCURS_RARELY = ("create failed", "state from behind", "other rows")
"""What must have happened in any 1,000 schedules in a row."""


def play_all(seeds: range) -> None:
    """Play schedules, and see that nothing was left out."""
    total = Counter[str]()
    gc.disable()  # a sixth of the time
    try:
        for seed in seeds:
            schedule = Schedule.drawn(seed)
            try:
                world = play(schedule)
            except Exception as error:
                raise explained(schedule) or error from None
            total.update(world.seen)
            total["drivers"] += len(world.drivers)
            total["moments"] += sum(driver.gate.moments for driver in world.drivers)
    finally:
        gc.enable()
    print(f"schedules {seeds.start} to {seeds.stop - 1}: {dict(sorted(total.items()))}")
    expected = (*OCCURS, *OCCURS_RARELY) if len(seeds) >= 1000 else OCCURS
    assert [name for name in expected if not total[name]] == [], "never happened"


@pytest.mark.parametrize("first", range(0, QUICK, AT_ONCE))
def test_random_schedules_end_exactly(first: int) -> None:
    play_all(range(first, first + AT_ONCE))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(QUICK, MANY, 2 * AT_ONCE))
def test_many_more_random_schedules_end_exactly(first: int) -> None:
    play_all(range(first, first + 2 * AT_ONCE))


def test_the_schedules_are_about_every_operator_and_every_scheme() -> None:
    modelled = {type(kind.operator).__name__ for kind in KINDS.values()}
    assert {kind.__name__ for kind in known_operators().values()} <= modelled
    drawn = [Schedule.drawn(seed).story for seed in range(0, QUICK, 5)]
    assert {story.kind for story in drawn} == {*KINDS}
    assert {story.scheme for story in drawn} == {"", "auto", "pkg", "d-choices", "shuffle"}


@pytest.mark.parametrize("seed", [131, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (17, 58, 1007))])
def test_a_schedule_is_the_same_in_every_process(seed: int) -> None:
    """So that a command repeats what failed: the same moments, under another seed of Python's hashes, too."""
    told: list[str] = []
    play(Schedule.read(str(Schedule.drawn(seed))), told.append)
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    command = [sys.executable, __file__, *told[0].removeprefix("schedule ").split(" ")]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines() == told


def main(text: str) -> None:
    """Play a schedule and tell every moment of it."""
    play(Schedule.read(text), tell=print)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main(" ".join(sys.argv[1:]))
