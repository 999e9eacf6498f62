"""Per-key functions without Spark: state, timeouts, late rows, errors; the drop-in and the lean form."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql.types import StructType

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash_keys
from unskew.operators import Clock
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.spark.per_key import KEEP, ArrowSettings, LeanFunction, PandasFunction, PerKeyFunction, Rows, slabs
from unskew.state import KeyedState, MemoryStore

Told = list[tuple[Any, ...]]


def schema(words: str) -> StructType:
    """Return a schema such as ``"user string, n long"`` without Spark."""
    made = StructType()
    for column in words.split(", "):
        made.add(*column.split(" "))
    return made


class Job:
    """Runs an operator batch by batch on one channel, as a runtime does, over a store that lasts."""

    def __init__(self, operator: PerKeyFunction, input_schema: pa.Schema, key: tuple[str, ...] = ("user",)) -> None:
        self.operator = operator.bind(input_schema, key)
        self.store = MemoryStore()
        self.batch_id = -1

    def batch(self, rows: pa.Table | None = None, **clock: int) -> tuple[Told, Told]:
        """Run a batch; return what came from rows and what came from timeouts."""
        self.batch_id += 1
        operator = self.operator
        rows = operator.input_schema.empty_table() if rows is None else rows.cast(operator.input_schema)
        now = Clock(self.batch_id, **{"processing_time_ms": 0, **clock})
        with KeyedState.open(
            self.store, operator.key_schema, operator.value_schema, slots=16, deadline=operator.deadline
        ) as state:
            groups = state.group(rows, hash_keys(rows, list(operator.key)))
            self.made = operator.update(state, groups, rows, now)
            tables = self.made.output, operator.expire(state, now)
            state.commit(f"batch-{self.batch_id}")
        for table in tables:
            assert table.schema == operator.output_schema
        from_rows, from_timeouts = ([tuple(row.values()) for row in table.to_pylist()] for table in tables)
        return from_rows, from_timeouts

    def held(self) -> int:
        operator = self.operator
        with KeyedState.open(
            self.store, operator.key_schema, operator.value_schema, slots=16, deadline=operator.deadline
        ) as state:
            return state.rows


USERS = pa.schema({"user": pa.string()})
EVENTS = pa.schema({"user": pa.string(), "at": pa.timestamp("us", "UTC")})
WITH_WATERMARK = EVENTS.with_metadata({EVENT_TIME_METADATA: b"at"})


def users(*names: str | None) -> pa.Table:
    return pa.table({"user": pa.array(names, pa.string())})


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({name: [value] for name, value in columns.items()})


def count(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    state.update((n,))
    yield frame(user=key[0], n=n)


def lean_count(key: tuple[Any, ...], rows: Rows, state: tuple[Any, ...] | None) -> Any:
    n = len(rows) + (state[0] if state else 0)
    return (n,), (key[0], n)


FORMS: list[Callable[..., PerKeyFunction]] = [
    lambda: PandasFunction(count, schema("user string, n long"), schema("n long")),
    lambda: LeanFunction(lean_count, schema("user string, n long"), schema("n long")),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limit", ["ROWS_CONVERTED_AT_ONCE", "BYTES_CONVERTED_AT_ONCE"])
def test_every_key_is_called_once_a_batch_with_its_rows_and_state(
    form: Callable[[], PerKeyFunction], limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slabs, limit, 50)
    rng = np.random.default_rng(1)
    job, seen = Job(pickle.loads(pickle.dumps(form())), USERS), Counter[str | None]()
    for _ in range(4):
        names = [None if n == 3 else f"u{n}" for n in rng.zipf(1.5, 200) % 40]
        told, _ = job.batch(users(*names))
        assert [user for user, _ in told] == list(dict.fromkeys(names)), "in the order of first appearance"
        seen.update(names)
        assert dict(told) == {name: seen[name] for name in names}
    assert job.held() == len(seen)
    seconds = job.made.seconds
    assert seconds is not None and len(seconds) == len(told) and (seconds > 0).all()
    assert job.batch() == ([], [])


def test_both_forms_share_a_checkpoint_and_another_state_does_not() -> None:
    pandas_form, lean_form = (form() for form in FORMS)
    assert repr(pandas_form) == repr(lean_form) == "PerKeyFunction(state='struct<n:bigint>', timeout='NoTimeout')"
    job = Job(pandas_form, USERS)
    job.batch(users("ada", "ada", "bob"))
    job.operator = lean_form.bind(USERS, ("user",))
    assert job.batch(users("ada"))[0] == [("ada", 3)]


def test_state_is_removed_and_made_anew() -> None:
    def forgetful(key: Any, frames: Any, state: Any) -> Any:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        if n > 2:
            state.remove()
            assert not state.exists and state.getOption is None
        elif key[0] != "bob":  # nothing is ever known of bob
            state.update((n,))
        return [frame(user=key[0], n=n)]

    def lean(key: Any, rows: Rows, state: Any) -> Any:
        n = len(rows) + (state[0] if state else 0)
        return None if n > 2 else (KEEP if key[0] == "bob" else (n,)), (key[0], n)

    output, kept = schema("user string, n long"), schema("n long")
    for operator in (PandasFunction(forgetful, output, kept), LeanFunction(lean, output, kept)):
        job = Job(operator, USERS)
        assert job.batch(users("ada", "bob", "ada"))[0] == [("ada", 2), ("bob", 1)]
        assert job.held() == 1
        assert job.batch(users("bob", "ada"))[0] == [("bob", 1), ("ada", 3)]
        assert job.held() == 0
        assert job.batch(users("ada"))[0] == [("ada", 1)]


def silence(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
    """Count until a user has been silent for 100 ms; b never sets a timeout, c is only read when it times out."""
    frames = list(frames)
    n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    if state.hasTimedOut:
        assert [(each.empty, [*each.columns], [*map(str, each.dtypes)]) for each in frames] == [
            (True, ["user"], ["object"])
        ]
        if key[0] != "c":
            state.remove()
    else:
        state.update((n,))
        if key[0] != "b":
            state.setTimeoutDuration(100)
    yield frame(user=key[0], n=n, now=state.getCurrentProcessingTimeMs())


def lean_silence(key: Any, rows: Rows, state: Any) -> Any:
    n, now = len(rows) + (state[0] if state else 0), rows.clock.processing_time_ms
    if rows.timed_out:
        return (KEEP, (key[0], n, now), now + 1) if key[0] == "c" else (None, (key[0], n, now))
    return (n,), (key[0], n, now), None if key[0] == "b" else now + 100


def test_timeouts_in_processing_time() -> None:
    output, kept = schema("user string, n long, now long"), schema("n long")
    for form, function in ((PandasFunction, silence), (LeanFunction, lean_silence)):
        job = Job(form(function, output, kept, "ProcessingTimeTimeout"), USERS)
        assert job.operator.time_mode == "processing"
        rows, none = job.batch(users("a", "b", "c", "a"), processing_time_ms=1000)
        assert rows == [("a", 2, 1000), ("b", 1, 1000), ("c", 1, 1000)] and none == []
        assert job.batch(users("a"), processing_time_ms=1050) == ([("a", 3, 1050)], [])
        assert job.batch(processing_time_ms=1100) == ([], []), "a timeout lies before the clock, not at it"
        assert job.batch(users("b"), processing_time_ms=1101) == ([("b", 2, 1101)], [("c", 1, 1101)])
        _, timeouts = job.batch(processing_time_ms=1200)
        assert sorted(timeouts) == [("a", 3, 1200), ("c", 1, 1200)], "c was left as it was, and times out again"
        assert job.held() == 2
        assert job.batch(users("a"), processing_time_ms=1201)[0] == [("a", 1, 1201)]


def test_a_key_may_have_a_timeout_and_no_state() -> None:
    def function(key: Any, frames: Any, state: Any) -> Any:
        assert not state.exists
        if not state.hasTimedOut:
            state.setTimeoutDuration(10)
        elif key[0] == "a":
            state.setTimeoutDuration(5)
        else:
            state.remove()
        return [frame(user=key[0], out=state.hasTimedOut)]

    job = Job(
        PandasFunction(function, schema("user string, out boolean"), schema("n long"), "ProcessingTimeTimeout"), USERS
    )
    job.batch(users("a", "b"), processing_time_ms=0)
    assert job.held() == 2
    assert job.batch(processing_time_ms=11)[1] == [("a", True), ("b", True)]
    assert job.held() == 1
    assert job.batch(processing_time_ms=17)[1] == [("a", True)]


def at(*events: tuple[str, int | None]) -> pa.Table:
    """Return rows of users at milliseconds."""
    times = [None if ms is None else ms * 1000 for _, ms in events]
    return pa.table({"user": [user for user, _ in events], "at": pa.array(times, pa.timestamp("us", "UTC"))})


def test_timeouts_and_late_rows_in_event_time() -> None:
    def function(key: Any, frames: Any, state: Any) -> Any:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        if state.hasTimedOut:
            state.remove()
        else:
            state.update((n,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 50)
        return [frame(user=key[0], n=n)]

    def lean(key: Any, rows: Rows, state: Any) -> Any:
        n = len(rows) + (state[0] if state else 0)
        return (None, (key[0], n)) if rows.timed_out else ((n,), (key[0], n), rows.clock.watermark_ms + 50)

    output, kept = schema("user string, n long"), schema("n long")
    with pytest.raises(ArgumentError, match=r"need a watermark.*withWatermark"):
        Job(PandasFunction(function, output, kept, "EventTimeTimeout"), EVENTS)
    for form, each in ((PandasFunction, function), (LeanFunction, lean)):
        job = Job(form(each, output, kept, "EventTimeTimeout"), WITH_WATERMARK)
        first = at(("a", 10), ("b", 90), ("a", 0), ("c", None))
        assert job.batch(first, watermark_ms=0) == ([("a", 2), ("b", 1), ("c", 1)], [])
        # late by the watermark of the batch before; the clock of timeouts is the new one
        second = at(("b", 5), ("a", 20), ("b", 21), ("d", 20), ("c", None))
        told = job.batch(second, watermark_ms=50, previous_watermark_ms=20)
        assert told == ([("b", 2), ("c", 2)], []), "a and d had late rows only"
        assert job.made.late_rows == 3
        assert job.batch(watermark_ms=51, previous_watermark_ms=50) == ([], [("a", 2)])
        assert job.made.late_rows == 0 and job.held() == 2
        assert job.batch(watermark_ms=1000)[1] == [("b", 2), ("c", 2)]


def test_a_window_is_late_when_it_has_ended() -> None:
    kind = pa.struct({"start": pa.timestamp("us", "UTC"), "end": pa.timestamp("us", "UTC")})
    windows = pa.array([{"start": 0, "end": 10_000}, {"start": 0, "end": 10_001}, None], kind)
    input_schema = pa.schema({"user": pa.string(), "window": kind}, {EVENT_TIME_METADATA: b"window"})
    operator = LeanFunction(lean_count, schema("user string, n long"), schema("n long"), "EventTimeTimeout")
    job = Job(operator, input_schema)
    rows = pa.table({"user": ["a", "b", "c"], "window": windows})
    assert job.batch(rows, watermark_ms=10, previous_watermark_ms=10)[0] == [("b", 1), ("c", 1)]


@pytest.mark.parametrize("form", [PandasFunction, LeanFunction])
def test_rows_are_never_late_without_timeouts_in_event_time(form: type[PerKeyFunction]) -> None:
    function = count if form is PandasFunction else lean_count
    job = Job(form(function, schema("user string, n long"), schema("n long")), WITH_WATERMARK)
    assert job.batch(at(("a", 1)), watermark_ms=100, previous_watermark_ms=100)[0] == [("a", 1)]


def test_a_function_without_timeouts_is_told_the_watermark_too() -> None:
    def function(key: Any, frames: Any, state: Any) -> Any:
        return [frame(n=state.getCurrentWatermarkMs())]

    operator = PandasFunction(function, schema("n long"), schema("n long"))
    job = Job(operator, WITH_WATERMARK)
    assert job.operator.time_mode == "event" and operator.time_mode == "none"
    assert job.batch(at(("a", 1)), watermark_ms=100)[0] == [(100,)]
    with pytest.raises(PySparkRuntimeError, match="without setting watermark"):
        Job(operator, EVENTS).batch(at(("a", 1)))


def error_of(operator: PerKeyFunction, names: tuple[str, ...] = ("ada", "bob")) -> BaseException:
    job = Job(operator, USERS)
    with pytest.raises(Exception) as failure:
        job.batch(users(*names))
    return failure.value


def test_a_function_that_raises_tells_the_key_and_the_batch() -> None:
    def function(key: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        yield frame(n=1)
        if key[0] == "bob":
            raise KeyError("spoon")

    def lean(key: Any, rows: Rows, state: Any) -> Any:
        return (1 // (key[0] != "bob"),), None

    for operator, kind in (
        (PandasFunction(function, schema("n long"), schema("n long")), KeyError),
        (LeanFunction(lean, schema("n long"), schema("n long")), ZeroDivisionError),
    ):
        error = error_of(operator)
        assert type(error) is kind, "the error itself, as Spark would show it"
        assert error.__notes__ == ["in the call for key 'bob' of batch 0"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: ((1, 2), None), "a state is a tuple with one value for each field, got"),
        (lambda: (("x",), None), "does not fit the type int64"),
        (lambda: ((1.5,), None), "does not fit the type int64"),
        (lambda: ((1,), ("ada",)), "a tuple of 2 values"),
        (lambda: ((1,), ("ada", "x")), "does not fit the type int64"),
        (lambda: ((1,), None, 5), "timeouts are off"),
        (lambda: (1,), "a function returns"),
        (lambda: 5, "a function returns"),
    ],
)
def test_wrong_answers_of_a_lean_function_tell_the_key(answer: Callable[[], Any], message: str) -> None:
    def lean(key: Any, rows: Rows, state: Any) -> Any:
        return ((1,), ("ada", 1)) if key[0] == "ada" else answer()

    error = error_of(LeanFunction(lean, schema("user string, n long"), schema("n long")))
    assert error.__notes__ == ["in the call for key 'bob' of batch 0"]
    with pytest.raises(type(error), match=message):
        raise error


def test_wrong_state_of_a_pandas_function_tells_the_key() -> None:
    def function(key: Any, frames: Any, state: Any) -> Any:
        state.update((1,) if key[0] == "ada" else (1, 2))
        return []

    error = error_of(PandasFunction(function, schema("n long"), schema("n long")))
    assert "a state is a tuple with one value for each field, got (1, 2)" in str(error)

    def wrong(key: Any, frames: Any, state: Any) -> Any:
        state.update(("2024-01-01" if key[0] == "bob" else None,))
        return []

    error = error_of(PandasFunction(wrong, schema("n long"), schema("day date")))
    assert type(error) is AttributeError and error.__notes__ == ["in the call for key 'bob' of batch 0"]


def test_deadlines_before_the_clock_are_refused() -> None:
    def lean(key: Any, rows: Rows, state: Any) -> Any:
        return (1,), None, 99

    job = Job(LeanFunction(lean, schema("n long"), schema("n long"), "ProcessingTimeTimeout"), USERS)
    with pytest.raises(ArgumentError, match="before the clock, which is at 100, got 99"):
        job.batch(users("ada"), processing_time_ms=100)


def test_arguments_are_checked() -> None:
    output, kept = schema("n long"), schema("n long")
    for arguments, message in (
        (("count", output, kept), "not a function"),
        ((count, "n long", kept), "output schema must be a StructType"),
        ((count, output, None), "state schema must be a StructType"),
        ((count, output, kept, "Never"), "no such timeout, got 'Never'.*NoTimeout, Processing"),
    ):
        with pytest.raises(ArgumentError, match=message):
            PandasFunction(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="did you mean 'user'"):
        Job(PandasFunction(count, output, kept), USERS, ("uesr",))


def test_what_the_first_call_in_a_process_costs_is_not_blamed_on_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_to_start(key: Any, rows: Rows, state: Any) -> Any:
        nonlocal now
        now += 0.002 if now else 0.2  # imports
        return (1,), None

    now = 0.0
    monkeypatch.setattr("unskew.spark.per_key.lean_function.perf_counter", lambda: now)
    monkeypatch.setattr("unskew.spark.per_key.calls._queued_seconds", lambda: 0.0)
    job = Job(LeanFunction(slow_to_start, schema("n long"), schema("n long")), pa.schema({"user": pa.string()}))
    for _ in range(2):
        job.batch(pa.table({"user": ["ada", "bob", "cy"]}))
        assert job.made.seconds is not None
        assert job.made.seconds == pytest.approx([0.002] * 3)


def test_composite_and_null_keys() -> None:
    def function(key: Any, frames: Any, state: Any) -> Any:
        n = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
        state.update((n,))
        return [frame(key=repr(key), n=n)]

    rows = pa.table({"user": ["a", None, "a", None, None], "shard": pa.array([1, None, None, None, 2], pa.int32())})
    job = Job(PandasFunction(function, schema("key string, n long"), schema("n long")), rows.schema, ("user", "shard"))
    job.batch(rows)
    assert job.batch(rows)[0] == [
        ("('a', np.int32(1))", 2),
        ("(None, np.float64(nan))", 4),
        ("('a', np.float64(nan))", 2),
        ("(None, np.int32(2))", 2),
    ]


def test_the_functions_of_the_how_to_give_the_same_rows() -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "convert-a-job.md"
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)[:2]:
        exec(block, names)
    output, kept = schema("user string, n long, total long"), schema("n long, total long")
    job = Job(PandasFunction(names["spending"], output, kept), pa.schema({"user": pa.string(), "amount": pa.int64()}))
    rows = pa.table({"user": ["ada", "bob", "ada"], "amount": [1, 2, 3]})
    assert job.batch(rows)[0] == [("ada", 2, 4), ("bob", 1, 2)]
    job.operator = LeanFunction(names["lean_spending"], output, kept).bind(job.operator.input_schema, ("user",))
    assert job.batch(rows)[0] == [("ada", 4, 8), ("bob", 2, 4)]


def test_lean_rows_give_the_columns_of_the_key() -> None:
    seen = {}

    def lean(key: Any, rows: Rows, state: Any) -> Any:
        seen[key] = rows["n"].tolist(), rows["x"].tolist(), rows["at"].dtype, rows.arrow("user").to_pylist()
        with pytest.raises(ColumnError, match="did you mean 'at'"):
            rows["att"]
        return KEEP, {"user": rows["user"], "n": rows["n"] * 10}

    rows = pa.table({"user": ["a", "b", "a"], "n": [1, 2, 3], "x": [0.5, None, 1.5], "at": at(*[("u", 5)] * 3)["at"]})
    job = Job(
        LeanFunction(lean, schema("user string, n long"), schema("n long"), settings=ArrowSettings()), rows.schema
    )
    assert job.batch(rows)[0] == [("a", 10), ("a", 30), ("b", 20)]
    assert repr(seen[("b",)]) == "([2], [nan], dtype('<M8[us]'), ['b'])"
    assert seen[("a",)][0] == [1, 3]
