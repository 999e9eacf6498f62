"""Stateful processors without Spark: state, expiry, timers, late rows, and what is refused."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from unskew.errors import ArgumentError, ColumnError, StateError
from unskew.hashing import hash_keys
from unskew.operators import Clock, Updated
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.spark.per_key import PandasProcessor, RowProcessor
from unskew.spark.per_key.spark_values import SparkValues
from unskew.state import KeyedState, MemoryStore
from unskew.testing import ABORT, MOVE, RESTART, check_operator
from unskew.testing import run as run_steps

N = StructType().add("n", LongType())
S = StructType().add("s", StringType())
TOLD = StructType().add("user", StringType()).add("told", StringType())
ROWS = pa.schema({"user": pa.string(), "n": pa.int64()})

Told = list[tuple[str, str]]


class Scripted(StatefulProcessor):
    """Does what functions say: with rows, and when a timer has come; tells what they return."""

    def __init__(
        self,
        init: Callable[[Any], dict[str, Any]],
        rows: Callable[..., Any],
        timer: Callable[..., Any] = lambda it, key, now, time: None,
    ) -> None:
        self._init, self._rows, self._timer = init, rows, timer

    def init(self, handle: Any) -> None:
        self.handle, self.closed = handle, False
        self.__dict__.update(self._init(handle))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        yield from told(key, self._rows(self, key, [n for frame in rows for n in frame["n"].tolist()], timerValues))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[pd.DataFrame]:
        yield from told(key, self._timer(self, key, timerValues, expiredTimerInfo.getExpiryTimeInMs()))


def told(key: Any, what: Any) -> Iterator[pd.DataFrame]:
    if what is not None:
        yield pd.DataFrame({"user": [key[0]], "told": [repr(what)]})


class Job:
    """Runs a processor batch by batch on one channel, as a runtime does, over a store that lasts."""

    def __init__(self, processor: StatefulProcessor, mode: str = "None", schema: pa.Schema = ROWS, **more: Any) -> None:
        self.operator = PandasProcessor(processor, TOLD, mode, **more).bind(schema, ("user",))
        self.store, self.batch_id = MemoryStore(), -1
        self.made: Updated

    def batch(self, rows: dict[str, list[Any]] | None = None, now: int = 0, **clock: int) -> Told:
        self.batch_id += 1
        operator, chunks = self.operator, len(self.store.chunks)
        table = pa.table(rows or {name: [] for name in operator.input_schema.names}, schema=operator.input_schema)
        with KeyedState.open(
            self.store, operator.key_schema, operator.value_schema, slots=8, deadline=operator.deadline
        ) as state:
            groups = state.group(table, hash_keys(table, "user"))
            self.made = operator.update(state, groups, table, Clock(self.batch_id, now, **clock))
            self.held = {row["key.user"]: row for part in state.scan() for row in part.to_pylist()}
            self.earliest = state.earliest
            state.commit(f"batch-{self.batch_id}")
        self.wrote = len(self.store.chunks) != chunks
        return [tuple(row.values()) for row in self.made.output.to_pylist()]


def test_value_list_and_map_state_last_from_batch_to_batch() -> None:
    def init(handle: Any) -> dict[str, Any]:
        return {
            "value": handle.getValueState("value", N),
            "list": handle.getListState("list", N),
            "map": handle.getMapState("map", S, N),
        }

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        before = it.value.exists(), it.value.get(), list(it.list.get()), list(it.map.iterator())
        it.value.update((np.int64(sum(numbers)),))
        it.list.appendList([(n,) for n in numbers])
        for n in numbers:
            it.map.updateValue((f"{n}",), (n,))
        return before

    job = Job(Scripted(init, rows))
    assert job.batch({"user": ["ada", "bob", "ada"], "n": [1, 2, 3]}) == [
        ("ada", "(False, None, [], [])"),
        ("bob", "(False, None, [], [])"),
    ]
    assert job.batch({"user": ["bob", "ada"], "n": [4, 5]}) == [
        ("bob", "(True, (2,), [(2,)], [(('2',), (2,))])"),
        ("ada", "(True, (4,), [(1,), (3,)], [(('1',), (1,)), (('3',), (3,))])"),
    ]
    assert job.held["ada"]["value.list"] == [{"n": 1}, {"n": 3}, {"n": 5}]


def test_only_keys_that_changed_are_written_and_a_key_with_nothing_left_is_forgotten() -> None:
    def init(handle: Any) -> dict[str, Any]:
        return {"value": handle.getValueState("value", N), "list": handle.getListState("list", N)}

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        for n in numbers:
            if n == 1:
                it.value.update((n,))
            elif n == 2:
                it.list.put([(n,), (3,)])
            elif n == -1:
                it.value.clear()
            elif n == -2:
                it.list.clear()
        return it.value.get(), list(it.list.get())

    job = Job(Scripted(init, rows))
    job.batch({"user": ["ada", "bob", "cy"], "n": [1, 2, 0]})
    assert set(job.held) == {"ada", "bob"}, "nothing is known of cy"
    assert job.batch({"user": ["ada", "bob"], "n": [0, 0]}) == [("ada", "((1,), [])"), ("bob", "(None, [(2,), (3,)])")]
    assert not job.wrote
    job.batch({"user": ["ada", "bob", "ada"], "n": [2, -2, -1]})
    assert set(job.held) == {"ada"}
    assert job.held["ada"]["value.value"] is None and job.held["ada"]["value.list"] == [{"n": 2}, {"n": 3}]


def test_state_expires_value_by_value_element_by_element_entry_by_entry() -> None:
    def init(handle: Any) -> dict[str, Any]:
        return {
            "value": handle.getValueState("value", N, ttlDurationMs=100),
            "list": handle.getListState("list", N, 100),
            "map": handle.getMapState("map", N, N, 100),
            "kept": handle.getValueState("kept", N, 0),  # as in Spark, 0 stands for no expiry
        }

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        for n in numbers:
            if n:
                it.value.update((n,))
                it.list.appendValue((n,))
                it.map.updateValue((n % 2,), (n,))
                it.kept.update((n,))
        return it.value.get(), list(it.list.get()), list(it.map.iterator()), it.map.exists(), it.kept.get()

    job = Job(Scripted(init, rows), "ProcessingTime")
    job.batch({"user": ["ada", "bob"], "n": [1, 1]}, now=1000)
    assert job.earliest == 1100
    job.batch({"user": ["ada"], "n": [2]}, now=1050)
    assert job.batch({"user": ["ada"], "n": [0]}, now=1099) == [
        ("ada", "((2,), [(1,), (2,)], [((1,), (1,)), ((0,), (2,))], True, (2,))")
    ]
    assert job.batch({"user": ["ada"], "n": [0]}, now=1100) == [("ada", "((2,), [(2,)], [((0,), (2,))], True, (2,))")]
    assert job.held["bob"]["value.list"] is None, "what has expired is removed, though no row came for bob"
    assert job.held["bob"]["value.kept"] == {"n": 1} and job.held["bob"]["value.deadline_ms"] is None
    assert job.earliest == 1150
    assert job.batch({"user": ["ada"], "n": [0]}, now=1150) == [("ada", "(None, [], [], False, (2,))")]


def test_timers_fire_in_the_order_of_their_times_and_what_they_set_waits_for_the_next_batch() -> None:
    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        for n in numbers:
            it.handle.registerTimer(np.int64(n))
        it.handle.deleteTimer(7)
        it.handle.deleteTimer(8)
        return list(it.handle.listTimers())

    def timer(it: Any, key: Any, now: Any, time: int) -> Any:
        listed = list(it.handle.listTimers())
        if time == 10:
            it.handle.registerTimer(15)
            it.handle.registerTimer(10)  # goes with the one that has come
            it.handle.deleteTimer(20)  # too late: it has come, too
        return time, listed, type(key).__name__, now.getCurrentProcessingTimeInMs(), now.getCurrentWatermarkInMs()

    job = Job(Scripted(lambda handle: {}, rows, timer), "ProcessingTime")
    came = {"user": ["ada", "bob", "ada", "ada", "ada"], "n": [20, 5, 10, 7, 20]}
    assert job.batch(came, now=1) == [("ada", "[10, 20]"), ("bob", "[5]")]
    assert job.earliest == 5
    assert job.batch(now=20) == [
        ("bob", "(5, [5], 'Row', 20, 0)"),
        ("ada", "(10, [10, 20], 'Row', 20, 0)"),
        ("ada", "(20, [15], 'Row', 20, 0)"),
    ]
    assert list(job.held) == ["ada"], "bob has neither state nor timers any more"
    assert job.batch(now=20) == [("ada", "(15, [15], 'Row', 20, 0)")]
    assert job.batch({"user": ["ada"], "n": [3]}, now=20) == [("ada", "[3]"), ("ada", "(3, [3], 'Row', 20, 0)")]
    assert not job.held


def with_time() -> pa.Schema:
    schema = pa.schema({"user": pa.string(), "n": pa.int64(), "at": pa.timestamp("us", "UTC")})
    return schema.with_metadata({EVENT_TIME_METADATA: "at"})


def test_late_rows_are_dropped_in_event_time_only() -> None:
    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        return numbers, now.getCurrentProcessingTimeInMs(), now.getCurrentWatermarkInMs()

    came = {"user": ["ada", "ada", "bob"], "n": [1, 2, 3], "at": [5_000_000, 5_000_001, 0]}
    results = {}
    for mode in ("EventTime", "ProcessingTime", "None"):
        job = Job(Scripted(lambda handle: {}, rows), mode, with_time())
        results[mode] = job.batch(came, 77, watermark_ms=6000, previous_watermark_ms=5000)
        assert job.made.late_rows == (2 if mode == "EventTime" else 0)
    assert results == {
        "EventTime": [("ada", "([2], 77, 6000)")],
        "ProcessingTime": [("ada", "([1, 2], 77, 6000)"), ("bob", "([3], 77, 6000)")],
        "None": [("ada", "([1, 2], -1, -1)"), ("bob", "([3], -1, -1)")],
    }


def test_a_value_comes_back_as_spark_would_give_it() -> None:
    kinds = StructType().add("i", IntegerType()).add("x", DoubleType()).add("s", StringType()).add("t", TimestampType())
    noon = datetime(2024, 2, 29, 12)

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        it.value.update((np.int32(7), 5, 1.5, pd.Timestamp(noon)))
        it.map.updateValue((np.int64(3),), (None, 2.5, None, None))
        return it.value.get(), it.map.getValue((3,)), it.map.getValue((4,)), it.map.containsKey((3,))

    def init(handle: Any) -> dict[str, Any]:
        return {"value": handle.getValueState("value", kinds), "map": handle.getMapState("map", N, kinds)}

    job = Job(Scripted(init, rows))
    expected = ((7, None, "1.5", noon), Row(i=None, x=2.5, s=None, t=None), None, True)
    for _ in range(2):
        assert job.batch({"user": ["ada"], "n": [1]}) == [("ada", repr(expected))]


@pytest.mark.parametrize(
    ("kind", "keys", "counts"),
    [
        (ArrayType(IntegerType()), [[1, 2], [], [1, 2]], [(([1, 2],), 2), (([],), 1)]),
        (DoubleType(), [0.0, -0.0, math.nan, float("nan")], [((0.0,), 1), ((-0.0,), 1), ((math.nan,), 2)]),
        (ByteType(), [1, 257, -1], [((1,), 2), ((-1,), 1)]),
        (StructType().add("x", DoubleType()), [(-0.0,), (0.0,), (-0.0,)], [((Row(x=-0.0),), 2), ((Row(x=0.0),), 1)]),
    ],
)
def test_keys_of_a_map_are_equal_where_spark_says_so(kind: Any, keys: list[Any], counts: list[Any]) -> None:
    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        for each in keys:
            before = it.map.getValue((each,))
            it.map.updateValue((each,), (1 if before is None else before.n + 1,))
        found = [(tuple(each), n) for each, (n,) in it.map.iterator()]
        if numbers == [2]:
            it.map.removeKey((keys[0],))
        return found, [it.map.containsKey((each,)) for each in keys]

    job = Job(Scripted(lambda handle: {"map": handle.getMapState("map", StructType().add("k", kind), N)}, rows))
    for batch in (1, 2):
        ((_, told),) = job.batch({"user": ["ada"], "n": [batch]})
        there = [batch == 1 or (repr(each) != repr(keys[0]) and each != 257) for each in keys]
        assert told == repr(([(each, n * batch) for each, n in counts], there))


def test_the_processor_that_was_given_stays_as_it_was() -> None:
    processor = Scripted(lambda handle: {"value": handle.getValueState("value", N)}, lambda it, key, n, now: None)
    before = dict(processor.__dict__)
    Job(processor).batch({"user": ["ada"], "n": [1]})
    assert processor.__dict__ == before


class Counting(StatefulProcessor):
    """Counts rows, by row."""

    timed = True

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.n = handle.getValueState("n", N)
        self.log = handle.getListState("log", N)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        n = (self.n.get() or (0,))[0]
        for row in rows:
            n += row.n
            self.log.appendValue((row.n,))
        self.n.update((n,))
        if self.timed:
            self.handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + 2_000 + n % 7)
        yield Row(told=repr((n, list(self.log.get()))), user=key[0], spare=1)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        if len(list(self.log.get())) > 5:
            self.log.clear()
        yield Row(user=key[0], told=repr((expiredTimerInfo.getExpiryTimeInMs(), self.n.get())))


def some_batches() -> list[pa.Table]:
    random = np.random.default_rng(0)
    return [
        pa.table({"user": [f"u{n}" for n in random.integers(0, 9, 20)], "n": random.integers(0, 9, 20)})
        for _ in range(5)
    ]


def test_moves_failures_and_restarts_change_nothing() -> None:
    operator, batches = RowProcessor(Counting(), TOLD, "ProcessingTime"), some_batches()
    steps = [batches[0], ABORT(), batches[1], MOVE("u1", to=1), batches[2], RESTART(), *batches[3:]]
    calm, rough = (run_steps(operator, each, key="user", channels=2) for each in (batches, steps))
    assert calm == rough
    assert any("(200" in row["told"] for table in calm.outputs for row in table.to_pylist()), "timers came"


class Untimed(Counting):
    """Counts rows; what it yields last does not depend on how rows fall into batches."""

    timed = False


@pytest.mark.slow
def test_a_processor_is_an_operator_like_any_other() -> None:
    check_operator(RowProcessor(Untimed(), TOLD, "None"), some_batches(), key="user")


def refused(init: Callable[[Any], Any], mode: str = "ProcessingTime") -> str:
    with pytest.raises(PySparkRuntimeError) as error:
        Job(Scripted(lambda handle: init(handle) and {}, lambda it, key, n, now: None), mode)
    return str(error.value)


def test_what_spark_refuses_in_init_is_refused_when_the_stream_is_built() -> None:
    assert refused(lambda h: [h.getValueState("x", N), h.getListState("x", N)]) == (
        "Error initializing list state: [STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED] State variable with name "
        "x has already been defined in the StatefulProcessor. SQLSTATE: 42802"
    )
    assert "TTL duration must be greater than zero" in refused(lambda h: h.getValueState("x", N, -5))
    assert "Cannot use TTL for state=x in timeMode=EventTime" in refused(
        lambda h: h.getMapState("x", N, N, 5), "EventTime"
    )
    assert "operation=register_timer with invalid handle state=CREATED" in refused(lambda h: h.registerTimer(5))
    assert "operation=list_timers with invalid timeMode=NoTime" in refused(lambda h: h.listTimers(), "None")
    with pytest.raises(StateError, match="state can be used only while a key is handled"):
        Job(Scripted(lambda handle: {"x": handle.getValueState("x", N).get()}, print))


def test_a_variable_that_init_deletes_is_no_part_of_the_state() -> None:
    def init(handle: Any) -> dict[str, Any]:
        gone = handle.getListState("gone", N)
        handle.deleteIfExists("gone")
        again = handle.getValueState("again", N), handle.deleteIfExists("again"), handle.getValueState("again", S)
        return {"gone": gone, "again": again[-1]}

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        it.again.update((f"{numbers}",))
        with pytest.raises(PySparkRuntimeError, match="state variable gone has been deleted"):
            it.gone.exists()
        return it.again.get()

    job = Job(Scripted(init, rows))
    assert [job.batch({"user": ["ada"], "n": [n]}) for n in (1, 2)] == [[("ada", f"('[{n}]',)")] for n in (1, 2)]
    assert set(job.operator.value_schema.names) == {"again"}
    assert "gone" not in repr(job.operator)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda it: it.handle.registerTimer(5), "register timer.*INVALID_TIME_MODE.*operation=register_timer"),
        (lambda it: it.handle.deleteTimer(5), "deleting timer.*INVALID_TIME_MODE"),
        (lambda it: it.handle.getValueState("y", N), "operation=get_value_state with invalid handle state=INITIALIZED"),
        (lambda it: it.handle.deleteIfExists("y"), "operation=delete_if_exists with invalid handle state=INITIALIZED"),
        (lambda it: it.list.put([]), "EMPTY_LIST_VALUE.*StateName list"),
        (lambda it: it.list.appendList([]), "EMPTY_LIST_VALUE.*StateName list"),
        (lambda it: it.list.appendValue((1, 2)), "a state has 1 fields"),
        (lambda it: 1 // 0, "division"),
    ],
)
def test_what_spark_refuses_in_a_call_is_refused_with_the_key(wrong: Any, message: str) -> None:
    init = lambda handle: {"list": handle.getListState("list", N)}  # noqa: E731
    job = Job(Scripted(init, lambda it, key, n, now: wrong(it)))
    with pytest.raises(Exception, match=f"(?s){message}") as error:
        job.batch({"user": ["ada"], "n": [1]})
    assert error.value.__notes__ == ["in handleInputRows for key 'ada' of batch 0"]


def test_rows_at_or_before_the_watermark_are_refused_where_a_stage_follows() -> None:
    output = StructType().add("user", StringType()).add("at", TimestampType())

    class Pass(StatefulProcessor):
        def init(self, handle: Any) -> None:
            pass

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
            for frame in rows:
                yield pd.DataFrame({"user": frame["user"], "at": frame["at"] - pd.Timedelta(seconds=1)})

    operator = PandasProcessor(Pass(), output, "EventTime", event_time_column="at").bind(with_time(), ("user",))
    rows = pa.table({"user": ["ada"], "n": [1], "at": [3_000_000]}, schema=with_time())
    schemas = operator.key_schema, operator.value_schema
    with KeyedState.open(MemoryStore(), *schemas, slots=8, deadline="deadline_ms") as state:
        groups = state.group(rows, hash_keys(rows, "user"))
        assert operator.update(state, groups, rows, Clock(0, 0, 1999, 1999)).output.num_rows == 1
        with pytest.raises(PySparkRuntimeError, match=r"ROWS_OLDER_THAN_WATERMARK.*current_watermark_value=2000"):
            operator.update(state, groups, rows, Clock(1, 0, 2000, 2000))
    with pytest.raises(ColumnError, match="no column of that name, got 'ta'"):
        PandasProcessor(Pass(), output, "EventTime", event_time_column="ta")
    with pytest.raises(ColumnError, match="event time is a timestamp"):
        PandasProcessor(Pass(), output, "EventTime", event_time_column="user")


def test_what_cannot_be_run_is_said() -> None:
    processor = Scripted(lambda handle: {}, lambda it, key, n, now: None)
    with pytest.raises(ArgumentError, match="timers in event time need a watermark"):
        Job(processor, "EventTime")
    with pytest.raises(ArgumentError, match=re.escape("no such time mode, got 'Never'. Hint: one of None, Proc")):
        Job(processor, "Never")
    with pytest.raises(ArgumentError, match="not a StatefulProcessor"):
        Job(print)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"this name is taken.*timers_ms"):
        Job(Scripted(lambda handle: {"x": handle.getValueState("timers_ms", N)}, print))


def test_variables_may_be_added_and_everything_else_is_another_processor() -> None:
    def asking(*names: str, kind: StructType = N) -> PandasProcessor:
        def init(handle: Any) -> dict[str, Any]:
            return {name: handle.getValueState(name, kind) for name in names}

        return PandasProcessor(Scripted(init, lambda it, key, n, now: None), TOLD, "None")

    known = repr(asking("a", "b"))
    assert all(asking(*names).continues(known) for names in (("a", "b"), ("a", "b", "c"), ("c", "b", "a")))
    assert not any(asking(*names).continues(known) for names in (("a",), ("a", "c"), ()))
    assert not asking("a", "b", kind=S).continues(known)
    assert not PandasProcessor(asking("a", "b").processor, TOLD, "ProcessingTime").continues(known)
    assert not asking().continues(repr(asking("a")))


def test_a_variable_that_is_added_is_empty_for_keys_that_are_known() -> None:
    def init(handle: Any) -> dict[str, Any]:
        return {"n": handle.getValueState("n", N)}

    def init_with_more(handle: Any) -> dict[str, Any]:
        return {"log": handle.getListState("log", N), **init(handle), "map": handle.getMapState("map", S, N)}

    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        before = it.n.get(), [list(each.get()) for each in (getattr(it, "log", None),) if each]
        it.n.update((sum(numbers),))
        if hasattr(it, "log"):
            it.log.appendList([(n,) for n in numbers])
        return before

    job = Job(Scripted(init, rows))
    job.batch({"user": ["ada", "bob"], "n": [1, 2]})
    job.operator = PandasProcessor(Scripted(init_with_more, rows), TOLD, "None").bind(ROWS, ("user",))
    assert job.batch({"user": ["ada", "eve"], "n": [3, 4]}) == [("ada", "((1,), [[]])"), ("eve", "(None, [[]])")]
    assert job.batch({"user": ["bob", "ada"], "n": [5, 6]}) == [("bob", "((2,), [[]])"), ("ada", "((3,), [[(3,)]])")]
    assert {user: row["value.log"] for user, row in job.held.items()} == {
        "ada": [{"n": 3}, {"n": 6}],
        "bob": [{"n": 5}],
        "eve": [{"n": 4}],
    }


def test_an_append_converts_no_list_until_somebody_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(it: Any, key: Any, numbers: list[int], now: Any) -> Any:
        for n in numbers:
            if n >= 0:
                it.list.appendValue((n,))
        return list(it.list.get()) if -1 in numbers else None

    def init(handle: Any) -> dict[str, Any]:
        return {"list": handle.getListState("list", N), "other": handle.getValueState("other", N)}

    random, job, known = np.random.default_rng(0), Job(Scripted(init, rows)), dict[str, list[int]]()

    def batch(ask: bool) -> None:
        users, numbers = random.integers(0, 12, 15), random.integers(-2 if ask else 0, 4, 15)
        rows = {"user": [f"u{user}" for user in users], "n": numbers.tolist()}
        told = dict(job.batch(rows))
        for user, n in zip(rows["user"], rows["n"], strict=True):
            if n >= 0:
                known.setdefault(user, []).append(n)
        asked = {user for user, n in zip(rows["user"], rows["n"], strict=True) if n == -1}
        assert told == {user: repr([(n,) for n in known.get(user, [])]) for user in asked}
        assert {user: [each["n"] for each in row["value.list"]] for user, row in job.held.items()} == known

    for number in range(30):
        batch(ask=number % 3 > 0)
    monkeypatch.setattr(SparkValues, "to_python", None)
    for _ in range(3):
        batch(ask=False)
