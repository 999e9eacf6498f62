"""A balanced run gives the rows that an unbalanced one gives, whatever dies in between."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kills import Schedule, check, run_to_the_end, write_data

BATCHES = 8

QUICK = [
    Schedule(1, ((1, "driver"), (4, "driver"))),
    Schedule(2, ((1, "worker"), (3, "driver"), (5, "worker")), arguments=("--shuffle",)),
    Schedule(3, ((2, "executor"), (5, "driver")), master="local-cluster[2,1,1024]"),
]


@pytest.mark.spark
@pytest.mark.parametrize("schedule", QUICK, ids=lambda schedule: f"seed{schedule.seed}")
def test_nothing_is_lost_and_nothing_twice(schedule: Schedule, tmp_path: Path) -> None:
    truth = write_data(tmp_path, schedule.seed, BATCHES)
    story = run_to_the_end(tmp_path, schedule)
    print(schedule, story)
    check(tmp_path, truth, ordered="--shuffle" not in schedule.arguments)
