from __future__ import annotations

import threading
from functools import partial

import pytest

from unskew_lab.bench.lane import Lane, by_turns
from unskew_lab.bench.streams import in_turn


class ThreeBatches:
    """What a lane needs of a query: it ends by itself after three batches, or fails in the second."""

    def __init__(self, name, diary, then, *, fails=False):
        self.name, self.diary, self.then, self.fails = name, diary, then, fails
        self.problem = None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            for batch in range(3):
                if self.fails and batch == 1:
                    raise ValueError("broken")
                self.diary.append((self.name, batch))
                self.then(batch)
        except (ValueError, InterruptedError) as problem:
            self.problem = problem

    @property
    def isActive(self):
        return self.thread.is_alive()

    def awaitTermination(self):
        self.thread.join(60)
        if self.problem is not None:
            raise self.problem

    def stop(self):
        self.thread.join(60)


def test_lanes_run_a_batch_each_in_turn_forwards_and_backwards():
    diary = []
    lanes = by_turns({name: partial(ThreeBatches, name, diary) for name in "ab"})
    assert diary == [("a", 0), ("b", 0), ("b", 1), ("a", 1), ("a", 2), ("b", 2)]
    for lane in lanes.values():
        assert list(lane.seconds) == [0, 1, 2]
        assert lane.after(1) == [lane.seconds[1], lane.seconds[2]]
        assert not lane.query.isActive


def test_a_query_in_turn_takes_its_rows_in_before_it_stands_still(tmp_path):
    given, diary = [], []

    def start(events, checkpoint, sink):
        given.append((events, checkpoint))
        return ThreeBatches(events, [], lambda batch: sink(f"rows of {events}", batch))

    def sink(rows, batch):
        diary.append((rows, batch))

    by_turns({name: in_turn(name, tmp_path / name, start, sink) for name in "ab"})
    assert given == [("a", str(tmp_path / "a")), ("b", str(tmp_path / "b"))]
    assert diary == [(f"rows of {name}", batch) for name, batch in zip("abbaab", (0, 0, 1, 1, 2, 2), strict=True)]


def test_if_one_breaks_the_others_are_stopped_and_its_error_is_raised():
    diary, started = [], []

    def sound(then):
        started.append(ThreeBatches("sound", diary, then))
        return started[0]

    with pytest.raises(ValueError, match="broken"):
        by_turns({"sound": sound, "broken": partial(ThreeBatches, "broken", diary, fails=True)})
    assert not started[0].isActive
    assert ("sound", 2) not in diary


def test_a_lane_tells_what_broke_and_stops_in_the_middle():
    broken, waiting = (Lane(partial(ThreeBatches, "a", [], fails=fails)) for fails in (True, False))
    assert broken.run_batch()
    assert not broken.run_batch()
    with pytest.raises(ValueError, match="broken"):
        broken.finish()
    assert waiting.run_batch()
    waiting.stop()
    with pytest.raises(InterruptedError):
        waiting.finish()
