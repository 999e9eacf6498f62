"""Channels run where their local copies are, as far as that keeps tasks evenly filled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unskew.load.statistics import add_up
from unskew.operators.aggregate import Aggregate
from unskew.planners import planner
from unskew.runtime import tasks, ways
from unskew.runtime.engine import Engine
from unskew.runtime.figures import BatchFigures
from unskew.runtime.history import History
from unskew.runtime.jobs import Facts
from unskew.runtime.log import RecordLog
from unskew.runtime.settings import Channels, Keeping, Planning, Settings
from unskew.runtime.site import local_place
from unskew.runtime.tasks import SLACK, evenly, tasks_at_home
from unskew.testing.jobs import LocalJobs
from unskew.testing.place import MemoryFiles, MemoryPlace

KEYS = [f"key{number}" for number in range(40)]


def test_channels_stay_where_their_copies_are() -> None:
    homes, copies = ["a", "b", "a", "c"], {0: "c", 1: "a", 2: "b", 3: "a"}
    task_of = tasks_at_home(np.ones(4), homes, copies)
    assert [homes[task] for task in task_of] == ["c", "a", "b", "a"]
    assert sorted(task_of) == [0, 1, 2, 3]


def test_a_channel_leaves_a_place_that_is_full_or_gone() -> None:
    """After a small batch that ran in one place, after an executor that went, and after one that came."""
    everyone_at_a = tasks_at_home(np.ones(4), ["a", "b"], dict.fromkeys(range(4), "a"))
    assert sorted(everyone_at_a) == [0, 0, 1, 1]
    one_gone = tasks_at_home(np.ones(3), ["a", "b"], {0: "a", 1: "gone", 2: "b"})
    assert (one_gone[0], one_gone[2]) == (0, 1)
    one_came = tasks_at_home(np.ones(4), ["a", "b", "c", "d"], {0: "a", 1: "b", 2: "b", 3: "a"})
    assert sorted(one_came) == [0, 1, 2, 3]


def test_the_heaviest_channel_gets_a_task_of_its_own_first() -> None:
    task_of = tasks_at_home(np.array([1.0, 1.0, 6.0, 1.0]), ["a", "b"], dict.fromkeys(range(4), "a"))
    assert (task_of == task_of[2]).sum() == 1


@given(
    st.lists(st.floats(0, 100), min_size=1, max_size=12),
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=6),
    st.dictionaries(st.integers(0, 11), st.sampled_from("abcdx")),
)
def test_staying_never_overfills_a_task(loads: list[float], homes: list[str], copies: dict[int, str]) -> None:
    """Whoever stays had room; whoever did not went to the emptiest task, as without copies."""
    costs = np.array(loads)
    task_of = tasks_at_home(costs, homes, copies)
    assert ((task_of >= 0) & (task_of < len(homes))).all()
    fullest = add_up(costs, task_of, len(homes)).max()
    even = add_up(costs, evenly(costs, len(homes)), len(homes)).max()
    assert fullest <= (1 + SLACK) * even + costs.max() + 1e-9


class Cluster(LocalJobs):
    """Each task runs in a place of its own: at home, or where `anywhere` says."""

    places: tuple[str, ...] = ()
    left = 0

    def at(self, places: tuple[str, ...], anywhere: Callable[[str], None]) -> Cluster:
        self.places, self.go, self.turn = places, anywhere, 0
        return self

    def homes(self, channels: int) -> tuple[str, ...]:
        homes = []
        for place in self.places[: min(channels, self.cores)]:
            self.go(place)
            homes.append(local_place())
        return tuple(homes)

    def leave_homes(self) -> None:
        self.left += 1

    def _task(self, name, function, batches):
        if name in ("channels", "whole"):
            self.go(self.places[self.turn % len(self.places)])
            self.turn += 1
        return super()._task(name, function, batches)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[BatchFigures, int]]]:
    """Run batches of one query; with homes or without, a task may also be sent elsewhere."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "")
    monkeypatch.setattr(tasks, "SECONDS_PER_TASK", 1e-9)  # every batch is worth a task for every core
    monkeypatch.setattr(ways, "WORTH_BYTES", -1)  # and all state a home
    files = MemoryFiles("memory", MemoryPlace({}))
    rows = pa.table({"key": KEYS})
    log, numbers = RecordLog(files), iter(range(100))

    def go(place: str) -> None:
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path / place))

    engines: dict[int, Engine] = {}

    def one(*places: str, cache_bytes: int = 1 << 30, min_gain: float = -np.inf, lost: str = ""):
        settings = Settings(
            Channels(3, slots=16),
            Planning(planner("keep"), min_gain=min_gain),
            keeping=Keeping(cache_bytes=cache_bytes),
        )
        engine = engines.setdefault(0, Engine(Aggregate(n="count").bind(rows.schema, ("key",)), settings, log, "q"))
        engine.settings = settings
        number = next(numbers)
        jobs = Cluster([rows], cores=3).at(places, lambda place: go("elsewhere" if place == lost else place))
        if lost:
            known = jobs.homes
            jobs.homes = lambda channels: tuple(  # type: ignore[method-assign]
                home.replace("elsewhere", lost) for home in known(channels)
            )
        engine.run(Facts(number, f"batch {number}", 0), jobs, lambda output, batch_id: None)
        return History(log.files).refresh()[number], jobs.left

    yield one


def test_channels_find_their_copies_at_home(run) -> None:
    first, _ = run("a", "b", "c")
    assert (first.homes, first.tasks, set(first.channel_found)) == (3, 3, {"new"})
    for places in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):  # tasks change places, channels follow them
        figures, left = run(*places)
        assert (set(figures.channel_found), left) == ({"copy"}, 0)


def test_an_executor_that_is_lost(run) -> None:
    """Its channels read their state elsewhere, homes are sought anew, and the others stay."""
    run("a", "b", "c")
    figures, left = run("a", "b", "c", lost="b")
    assert (sorted(figures.channel_found), left) == (["copy", "copy", "store"], 1)
    figures, left = run("c", "elsewhere", "a")
    assert (set(figures.channel_found), left) == ({"copy"}, 0)


def test_state_that_is_read_quickly_has_no_home(run, monkeypatch) -> None:
    """Once it has grown, channels begin where they have run last."""
    monkeypatch.setattr(ways, "WORTH_BYTES", 1 << 20)
    assert run("a", "b", "c")[0].homes == 0
    assert run("a", "b", "c")[0].homes == 0
    monkeypatch.setattr(ways, "WORTH_BYTES", 0)
    figures, _ = run("c", "a", "b")
    assert (figures.homes, set(figures.channel_found)) == (3, {"copy"})


def test_without_local_copies_nothing_is_held_anywhere(run) -> None:
    run("a", "b", "c", cache_bytes=0)
    figures, _ = run("a", "b", "c", cache_bytes=0)
    assert (figures.homes, set(figures.channel_found)) == (0, {"store"})


def test_a_small_batch_runs_anywhere_unless_no_machine_can_hold_all_state(run, monkeypatch) -> None:
    monkeypatch.setattr(ways, "WORTH_SECONDS", 1e9)  # nothing is worth a second job
    run("a", "b", "c", min_gain=0.02)
    figures, _ = run("a", min_gain=0.02)
    assert (figures.way, figures.homes) == ("whole", 0)
    assert sorted(figures.channel_found) == ["copy", "store", "store"]
    figures, _ = run("a", "b", "c", min_gain=0.02, cache_bytes=figures.state_bytes - 1)
    assert (figures.way, figures.homes) == ("counted", 3)
    assert sorted(figures.channel_found) == ["behind", "behind", "copy"]
