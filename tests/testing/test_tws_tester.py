"""Tests written for Spark's `TwsTester`, run against Spark's and against ours."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pandas.testing as pdt
import pytest
from pyspark.errors import (
    IllegalArgumentException,
    PySparkAssertionError,
    PySparkRuntimeError,
    PySparkValueError,
)
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.streaming.tws_tester import TwsTester as SparksTester
from pyspark.sql.types import DoubleType, IntegerType, LongType, StringType, StructType

from unskew.errors import ArgumentError
from unskew.testing import TwsTester

N, X, WORD = (
    StructType().add("n", IntegerType()),
    StructType().add("x", DoubleType()),
    StructType().add("w", StringType()),
)
MS = StructType().add("ms", LongType())

Kind = Any


@pytest.fixture(params=[SparksTester, TwsTester], ids=["Spark's", "ours"])
def tester_of(request: pytest.FixtureRequest) -> Any:
    return request.param


class Count(StatefulProcessor):
    """Counts rows or rows of frames; begins with a count."""

    def init(self, handle: Any) -> None:
        self.handle, self.inits = handle, getattr(self, "inits", 0) + 1
        self.count = handle.getValueState("count", N)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        frame = isinstance(initialState, pd.DataFrame)
        self.count.update((int(initialState["first"].iloc[0]) if frame else initialState.first,))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        parts = list(rows)
        frames = bool(parts) and isinstance(parts[0], pd.DataFrame)
        new = sum(map(len, parts)) if frames else len(parts)
        before = self.count.get()[0] if self.count.exists() else 0
        self.count.update((before + new,))
        made = {"key": key[0], "count": before + new}
        yield pd.DataFrame([made]) if frames else Row(**made)


class Top(StatefulProcessor):
    """Keeps the greatest scores of each key in a list."""

    def __init__(self, k: int) -> None:
        self.k = k

    def init(self, handle: Any) -> None:
        self.top = handle.getListState("top", X)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        scores = [score for (score,) in self.top.get()] + [row.score for row in rows]
        best = sorted(scores, reverse=True)[: self.k]
        self.top.put([(score,) for score in best])
        for score in best:
            yield Row(key=key[0], score=score)


class Words(StatefulProcessor):
    """Counts words in a map."""

    def init(self, handle: Any) -> None:
        self.counts = handle.getMapState("counts", WORD, N)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            for word in frame["word"]:
                before = self.counts.getValue((word,))
                self.counts.updateValue((word,), ((before[0] if before else 0) + 1,))
                yield pd.DataFrame({"key": [key[0]], "word": [word], "count": [self.counts.getValue((word,))[0]]})


class Commands(StatefulProcessor):
    """Does what rows say, with each kind of state."""

    def init(self, handle: Any) -> None:
        self.value = handle.getValueState("value", N)
        self.list = handle.getListState("list", WORD)
        self.map = handle.getMapState("map", WORD, N)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        does = {
            "value exists": self.value.exists,
            "value update": lambda: self.value.update((42,)),
            "value get": self.value.get,
            "value clear": self.value.clear,
            "list exists": self.list.exists,
            "list append": lambda: (self.list.appendValue(("a",)), self.list.appendValue(("b",)))[0],
            "list append all": lambda: self.list.appendList([("c",), ("d",)]),
            "list get": lambda: list(self.list.get()),
            "list clear": self.list.clear,
            "map exists": self.map.exists,
            "map add": lambda: [self.map.updateValue((word,), (n,)) for n, word in enumerate("xyz")],
            "map keys": lambda: sorted(self.map.keys()),
            "map values": lambda: sorted(self.map.values()),
            "map items": lambda: sorted((tuple(word), tuple(n)) for word, n in self.map.iterator()),
            "map remove": lambda: self.map.removeKey(("y",)),
            "map contains": lambda: (self.map.containsKey(("x",)), self.map.containsKey(("y",))),
            "map clear": self.map.clear,
            "map get": lambda: self.map.getValue(("no",)),
        }
        for row in rows:
            yield Row(key=key[0], command=row.command, result=does[row.command]())


class Sessions(StatefulProcessor):
    """Ends a session when a timer comes: ten seconds after the clock, or five after the event."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.seen = handle.getValueState("seen", MS)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        for row in rows:
            by_event = "ms" in row
            at = row.ms if by_event else timerValues.getCurrentProcessingTimeInMs()
            self.seen.update((at,))
            for timer in list(self.handle.listTimers()):
                self.handle.deleteTimer(timer)
            self.handle.registerTimer(at + (5_000 if by_event else 10_000))
            yield Row(key=key[0], told=f"{row.value} at {at}")

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        self.seen.clear()
        now = timerValues.getCurrentProcessingTimeInMs(), timerValues.getCurrentWatermarkInMs()
        yield Row(key=key[0], told=f"over at {expiredTimerInfo.getExpiryTimeInMs()}, {now}")


def test_counts_of_several_keys_and_a_look_at_them(tester_of: Kind) -> None:
    processor = Count()
    tester = tester_of(processor)
    assert tester.test("a", [Row(value=1)]) == [Row(key="a", count=1)]
    assert tester.test("b", [Row(value=1), Row(value=None)]) == [Row(key="b", count=2)]
    assert tester.test("a", [Row(value=n) for n in range(3)]) == [Row(key="a", count=4)]
    assert tester.test("c", []) == [Row(key="c", count=0)]
    assert [tester.peekValueState("count", key) for key in "abcd"] == [(4,), (2,), (0,), None]
    assert processor.inits == 1


@pytest.mark.parametrize("key", [7, None, (1, 2), "a b@$%"])
def test_keys_of_any_kind(tester_of: Kind, key: Any) -> None:
    tester = tester_of(Count())
    tester.test(key, [Row(value=1)])
    assert tester.test(key, [Row(value=1)]) == [Row(key=key, count=2)]
    assert tester.peekValueState("count", key) == (2,)


def test_frames(tester_of: Kind) -> None:
    tester = tester_of(Count())
    tester.testInPandas("a", pd.DataFrame({"value": ["x"]}))
    made = tester.testInPandas("a", pd.DataFrame({"value": ["x", "y"]}))
    pdt.assert_frame_equal(made, pd.DataFrame({"key": ["a"], "count": [3]}))
    assert made["count"].dtype == "int64"
    empty = tester.testInPandas("b", pd.DataFrame({"value": []}))
    pdt.assert_frame_equal(empty, pd.DataFrame({"key": ["b"], "count": [0]}))


def test_several_frames_become_one(tester_of: Kind) -> None:
    tester = tester_of(Words())
    made = tester.testInPandas("u", pd.DataFrame({"word": ["hi", "you", "hi"]}))
    expected = pd.DataFrame({"key": ["u"] * 3, "word": ["hi", "you", "hi"], "count": [1, 1, 2]})
    pdt.assert_frame_equal(made, expected)
    assert tester.peekMapState("counts", "u") == {("hi",): (2,), ("you",): (1,)}
    assert tester.peekMapState("counts", "v") == {}
    assert len(tester.testInPandas("u", pd.DataFrame({"word": []}))) == 0


def test_lists(tester_of: Kind) -> None:
    tester = tester_of(Top(2))
    made = tester.test("a", [Row(score=2.0), Row(score=3.0), Row(score=1.0)])
    assert made == [Row(key="a", score=3.0), Row(key="a", score=2.0)]
    tester.updateListState("top", "b", [(8.0,), (7.0,)])
    tester.test("b", [Row(score=7.5)])
    assert [tester.peekListState("top", key) for key in "abc"] == [[(3.0,), (2.0,)], [(8.0,), (7.5,)], []]
    tester.deleteState("top", "a")
    assert tester.peekListState("top", "a") == [] and tester.peekListState("top", "b") == [(8.0,), (7.5,)]


def test_state_that_a_test_sets(tester_of: Kind) -> None:
    counts, words = tester_of(Count()), tester_of(Words())
    counts.updateValueState("count", "a", (5,))
    assert counts.test("a", [Row(value=1)]) == [Row(key="a", count=6)]
    counts.deleteState("count", "a")
    assert counts.peekValueState("count", "a") is None
    words.updateMapState("counts", "u", {("hi",): (5,), ("you",): (3,)})
    words.testInPandas("u", pd.DataFrame({"word": ["hi", "bye"]}))
    assert words.peekMapState("counts", "u") == {("hi",): (6,), ("you",): (3,), ("bye",): (1,)}
    words.deleteState("counts", "u")
    assert words.peekMapState("counts", "u") == {}


def test_state_that_there_is_not(tester_of: Kind) -> None:
    tester = tester_of(Count())
    for use in (
        lambda: tester.peekValueState("other", "a"),
        lambda: tester.updateValueState("other", "a", (1,)),
        lambda: tester.peekListState("count", "a"),
        lambda: tester.updateMapState("count", "a", {}),
    ):
        with pytest.raises(AssertionError, match="has not been initialized"):
            use()
    with pytest.raises(PySparkAssertionError, match="STATE_NOT_EXISTS"):
        tester.deleteState("other", "a")


def test_every_method_of_state(tester_of: Kind) -> None:
    tester = tester_of(Commands())
    script = {
        "value exists": False,
        "value get": None,
        "value update": None,
        "list exists": False,
        "list get": [],
        "list append": None,
        "list append all": None,
        "map exists": False,
        "map get": None,
        "map add": [None] * 3,
        "map remove": None,
        "map contains": (True, False),
        "map keys": [("x",), ("z",)],
        "map values": [(0,), (2,)],
        "map items": [(("x",), (0,)), (("z",), (2,))],
    }
    later = {"value exists": True, "value get": (42,), "list get": [("a",), ("b",), ("c",), ("d",)], "map exists": True}
    last = {"value clear": None, "list clear": None, "map clear": None}
    gone = {"value exists": False, "list exists": False, "map exists": False, "map items": []}
    for wanted in (script, later, last, gone):
        made = tester.test("k", [Row(command=command) for command in wanted])
        assert {row.command: row.result for row in made} == wanted


def test_state_to_begin_with(tester_of: Kind) -> None:
    rows = tester_of(Count(), initialStateRow=[("a", Row(first=10)), ("b", Row(first=20))])
    assert rows.peekValueState("count", "b") == (20,)
    assert rows.test("a", [Row(value=1)]) == [Row(key="a", count=11)]
    assert rows.test("c", [Row(value=1)]) == [Row(key="c", count=1)]
    frames = tester_of(Count(), initialStatePandas=[("a", pd.DataFrame({"first": [10]}))])
    made = frames.testInPandas("a", pd.DataFrame({"value": [1]}))
    pdt.assert_frame_equal(made, pd.DataFrame({"key": ["a"], "count": [11]}))
    assert tester_of(Count(), initialStateRow=[]).test("a", []) == [Row(key="a", count=0)]
    with pytest.raises(AssertionError, match="both Row and Pandas"):
        tester_of(Count(), initialStateRow=[], initialStatePandas=[])


def test_timers_by_the_clock(tester_of: Kind) -> None:
    tester = tester_of(Sessions(), timeMode="ProcessingTime")
    assert tester.test("a", [Row(value="hi")]) == [Row(key="a", told="hi at 0")]
    assert tester.setProcessingTime(5_000) == []
    assert tester.test("b", [Row(value="you")]) == [Row(key="b", told="you at 5000")]
    assert tester.setProcessingTime(9_999) == []
    assert tester.setProcessingTime(10_000) == [Row(key="a", told="over at 10000, (10000, -1)")]
    assert tester.peekValueState("seen", "a") is None and tester.peekValueState("seen", "b") == (5_000,)
    assert tester.setProcessingTime(99_000) == [Row(key="b", told="over at 15000, (99000, -1)")]
    for time in (99_000, 5):
        with pytest.raises(IllegalArgumentException, match="must move forward"):
            tester.setProcessingTime(time)


def test_timers_and_late_rows_in_event_time(tester_of: Kind) -> None:
    tester = tester_of(Sessions(), timeMode="eventTime", eventTimeExtractor=lambda row: row.ms)
    assert tester.test("a", [Row(ms=10_000, value="hi")]) == [Row(key="a", told="hi at 10000")]
    tester.test("b", [Row(ms=11_000, value="you")])
    assert tester.setWatermark(15_000) == [Row(key="a", told="over at 15000, (0, 15000)")]
    late_and_not = [Row(ms=15_000, value="late"), Row(ms=15_001, value="on time")]
    assert tester.test("b", late_and_not) == [Row(key="b", told="on time at 15001")]
    assert tester.setWatermark(20_000) == [], "the timer has moved"
    assert tester.setWatermark(20_001) == [Row(key="b", told="over at 20001, (0, 20001)")]
    with pytest.raises(IllegalArgumentException, match="must move forward"):
        tester.setWatermark(20_001)
    tester.updateValueState("seen", "c", (1,))

    class InThePast(Sessions):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            self.handle.registerTimer(timerValues.getCurrentWatermarkInMs())
            return iter(())

    past = tester_of(InThePast(), timeMode="EventTime", eventTimeExtractor=lambda row: row.ms)
    with pytest.raises(IllegalArgumentException, match="not later than the current watermark 0 ms"):
        past.test("a", [])


def test_late_rows_of_frames(tester_of: Kind) -> None:
    tester = tester_of(Count(), timeMode="EventTime", eventTimeExtractor=lambda row: row["ms"])
    tester.setWatermark(6_000)
    made = tester.testInPandas("a", pd.DataFrame({"ms": [4_000, 6_000, 6_001, 9_000]}))
    pdt.assert_frame_equal(made, pd.DataFrame({"key": ["a"], "count": [2]}))


def test_a_timer_may_set_another_and_each_comes_once(tester_of: Kind) -> None:
    class Chain(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.handle = handle

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            for row in rows:
                self.handle.registerTimer(row.at)
            yield Row(timers=list(self.handle.listTimers()))

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
            at = expiredTimerInfo.getExpiryTimeInMs()
            if at < 50:
                self.handle.registerTimer(at + 40)
            yield Row(at=at, timers=list(self.handle.listTimers()))

    tester = tester_of(Chain(), timeMode="ProcessingTime")
    assert tester.test("a", [Row(at=30), Row(at=10), Row(at=30)]) == [Row(timers=[10, 30])]
    assert tester.setProcessingTime(30) == [Row(at=10, timers=[10, 30, 50]), Row(at=30, timers=[30, 50, 70])]
    assert tester.setProcessingTime(31) == []
    assert tester.setProcessingTime(100) == [Row(at=50, timers=[50, 70]), Row(at=70, timers=[70])]


def test_what_a_time_mode_does_not_have(tester_of: Kind) -> None:
    none, clock = tester_of(Count()), tester_of(Count(), timeMode="ProcessingTime")
    for use in (lambda: none.setProcessingTime(1), lambda: none.setWatermark(1), lambda: clock.setWatermark(1)):
        with pytest.raises(PySparkValueError, match="UNSUPPORTED_OPERATION"):
            use()
    with pytest.raises(PySparkValueError, match="ARGUMENT_REQUIRED"):
        tester_of(Count(), timeMode="EventTime")


def test_what_differs_from_sparks_tester() -> None:
    """State expires, values are converted and refused as in a stream, and a call that fails leaves nothing behind."""

    class Expiring(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.value = handle.getValueState("value", N, 100)
            self.list = handle.getListState("list", X, 100)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            for row in rows:
                self.value.update((row.n,))
                self.list.appendValue((row.n,))
                if row.n > 5:
                    raise ValueError("too much")
            return iter(())

    tester = TwsTester(Expiring(), timeMode="ProcessingTime")
    tester.test("a", [Row(n=1)])
    tester.setProcessingTime(60)
    tester.test("a", [Row(n=2)])
    assert tester.peekListState("list", "a") == [(None,), (None,)], "an int is no double"
    with pytest.raises(ValueError, match="too much"):
        tester.test("a", [Row(n=3), Row(n=6)])
    assert tester.peekValueState("value", "a") == (2,)
    tester.setProcessingTime(100)
    assert len(tester.peekListState("list", "a")) == 1
    tester.setProcessingTime(160)
    assert tester.peekValueState("value", "a") is None

    with pytest.raises(PySparkRuntimeError, match="INCORRECT_TIME_MODE_TO_ASSIGN_TTL"):
        TwsTester(Expiring())
    with pytest.raises(PySparkRuntimeError, match="EMPTY_LIST_VALUE"):
        TwsTester(Top(0)).test("a", [Row(score=1.0)])
    with pytest.raises(ArgumentError, match="there is no such time mode, got 'never'"):
        TwsTester(Count(), timeMode="never")


IN_WORDS = """
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from unskew.testing import TwsTester

class Count(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n int")

    def handleInputRows(self, key, rows, timerValues):
        self.count.update((len(list(rows)),))
        yield Row(n=self.count.get()[0])

print(TwsTester(Count()).test("a", [Row(value=1)]))
"""


@pytest.mark.spark
def test_schemas_in_words(spark: Any, tester_of: Kind) -> None:
    class InWords(Count):
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "n int")

    assert tester_of(InWords()).test("a", [Row(value=1)]) == [Row(key="a", count=1)]


@pytest.mark.slow
def test_schemas_in_words_where_no_session_runs() -> None:
    done = subprocess.run([sys.executable, "-c", IN_WORDS], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[Row(n=1)]"
