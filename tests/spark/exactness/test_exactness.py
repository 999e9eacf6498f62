"""A balanced run gives the rows that an unbalanced one gives, whatever dies in between."""

import random
import sys
from collections import Counter
from itertools import chain
from pathlib import Path

import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kills import Schedule, run_to_the_end, write_data

from chaos import judge
from unskew.planners import PLANNERS

BATCHES = 8
MASTERS = ("local[2,4]", "local[8,4]", "local-cluster[2,1,1024]")

QUICK = [
    Schedule(1, ((1, "worker"), (2, "driver")), arguments=("--resize",)),
    Schedule(3, ((1, "executor"),), master="local-cluster[2,1,1024]"),
    Schedule(2, ((1, "worker"), (3, "worker")), arguments=("--shuffle",)),
]


def drawn(seed: int) -> Schedule:
    """Draw a schedule: two to four victims at random batches, any master, any planner, now and then an idle minute."""
    dice = random.Random(seed)
    master = MASTERS[seed % len(MASTERS)]
    kinds = ("driver", "worker", "executor") if master.startswith("local-cluster") else ("driver", "worker")
    victims = tuple((dice.randrange(BATCHES - 1), dice.choice(kinds)) for _ in range(dice.randint(2, 4)))
    planner = "random" if seed % 2 else dice.choice(list(PLANNERS))
    arguments = ["--planner", planner]
    if dice.random() < 0.3:
        arguments.append("--shuffle")
    if seed % 3 == 1:
        arguments.append("--resize")
    if seed % 20 == 0:
        arguments += ["--gap", "65"]
    return Schedule(seed, victims, master, tuple(arguments))


def run(schedule: Schedule, home: Path, batches: int = BATCHES) -> None:
    truth = write_data(home, schedule.seed, batches)
    story = run_to_the_end(home, schedule)
    print(schedule, story)
    assert any(event.startswith("killed") for event in story), "nobody was killed, so nothing was tested"
    judge.check_chain(judge.outputs(home / "out"), truth, ordered="--shuffle" not in schedule.arguments)


def check_totals(home: Path) -> None:
    assert (home / "split").exists(), "no key was split, so nothing was tested"
    files = [pq.read_table(path).to_pylist() for path in sorted((home / "data").iterdir())]
    judge.check_totals(judge.outputs(home / "out"), files)


def check_second_stage(home: Path) -> None:
    """Check that the second stage has seen every row of the first one's output once."""
    times, most = Counter(), {}
    for row in chain.from_iterable(judge.outputs(home / "out")):
        times[row["key"]] += 1
        most[row["key"]] = max(most.get(row["key"], 0), row["rows"])
    expected = [{"key": key, "times": times[key], "most": most[key]} for key in times]
    judge.check_last(judge.outputs(home / "second-out"), expected)


@pytest.mark.spark
@pytest.mark.parametrize("schedule", QUICK, ids=lambda schedule: f"seed{schedule.seed}")
def test_nothing_is_lost_and_nothing_twice(schedule: Schedule, tmp_path: Path) -> None:
    run(schedule, tmp_path, batches=5)


@pytest.mark.spark
def test_totals_of_split_keys_survive_a_worker_and_the_driver(tmp_path: Path) -> None:
    schedule = Schedule(7, ((1, "worker"), (3, "driver")), arguments=("--split", "--planner", "mixed"))
    write_data(tmp_path, schedule.seed, batches=6, zipf=1.6, drift=37)
    story = run_to_the_end(tmp_path, schedule)
    assert any(event.startswith("killed") for event in story), "nobody was killed, so nothing was tested"
    check_totals(tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
def test_nothing_is_lost_and_nothing_twice_in_many_ways(seed: int, tmp_path: Path) -> None:
    run(drawn(seed), tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 212))
def test_totals_of_split_keys_are_exact_in_every_batch(seed: int, tmp_path: Path) -> None:
    """A worker, an executor and the driver die in turn while keys are split and become whole again."""
    master = MASTERS[seed % len(MASTERS)]
    kinds = ("worker", "executor", "driver") if master.startswith("local-cluster") else ("worker", "driver", "worker")
    arguments = ("--split", "--planner", "random" if seed % 2 else "mixed", *(("--resize",) if seed % 4 == 3 else ()))
    schedule = Schedule(seed, tuple((1 + 2 * at, kind) for at, kind in enumerate(kinds)), master, arguments)
    write_data(tmp_path, seed, batches=10, zipf=1.6, drift=37)
    story = run_to_the_end(tmp_path, schedule)
    print(schedule, story)
    assert any(event.startswith("killed") for event in story), "nobody was killed, so nothing was tested"
    check_totals(tmp_path)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("planner", ["flux-load", "flux-memory", "flux-hybrid", "smalops"])
def test_planners_of_slots_and_partitions_are_exact(planner: str, tmp_path: Path) -> None:
    """Two of four channels have hardly any memory, so that planners that go by it have something to do."""
    victims = ((1, "worker"), (2, "driver"), (4, "worker"), (5, "driver"))
    arguments = ("--planner", planner, "--memory", "2000", "2000", "1000000", "1000000")
    run(Schedule(500, victims, arguments=arguments), tmp_path)
    assert (tmp_path / "moved").exists(), "nothing moved, so nothing was tested"


STEPS = (*range(1, 11), *range(9, 1, -1), *[2] * 4)
JUMPS = (*[1] * 2, *[10] * 7, *[2] * 7)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("planner", ["mixed", "random"])
@pytest.mark.parametrize("wishes", [STEPS, JUMPS], ids=["steps", "jumps"])
def test_channels_come_and_go_while_somebody_dies(wishes: tuple[int, ...], planner: str, tmp_path: Path) -> None:
    """From one channel to ten and back to two, while the query is killed in every way."""
    kinds = ("worker", "driver", "worker", "driver")
    victims = tuple((3 + len(wishes) // 5 * at, kind) for at, kind in enumerate(kinds))
    arguments = ("--planner", planner, "--channels", *map(str, wishes))
    run(Schedule(400 + len(wishes), victims, arguments=arguments), tmp_path, batches=len(wishes) + 4)
    used = [int(line) for line in (tmp_path / "channels").read_text().split()]
    assert (used[0], max(used), used[-1]) == (1, 10, 2)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 306))
def test_two_inputs_and_two_stages_are_exact(seed: int, tmp_path: Path) -> None:
    """Two streams meet in a stage whose output is another one's input; somebody dies in each."""
    dice = random.Random(seed)
    master = MASTERS[seed % len(MASTERS)]
    kinds = ("driver", "worker", "executor") if master.startswith("local-cluster") else ("driver", "worker")
    victims = tuple((batch, dice.choice(kinds)) for batch in (1, 3, 5, 7))
    truth = write_data(tmp_path, seed, batches=8)
    (tmp_path / "more-data").mkdir()
    for path in sorted((tmp_path / "data").iterdir())[1::2]:
        path.rename(tmp_path / "more-data" / path.name)
    schedule = Schedule(seed, victims, master, ("--pipeline",))
    story = run_to_the_end(tmp_path, schedule)
    print(schedule, story)
    assert any(event.startswith("killed") for event in story), "nobody was killed, so nothing was tested"
    judge.check_chain(judge.outputs(tmp_path / "out"), truth)
    check_second_stage(tmp_path)
