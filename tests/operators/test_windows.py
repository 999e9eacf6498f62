"""Windows on event time: against a plain account of what Spark does, row by row, and against Spark itself."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Operator
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.operators.durations import microseconds
from unskew.operators.session_aggregate import SessionAggregate
from unskew.operators.window_aggregate import WindowAggregate
from unskew.testing import check_operator, disturbed, run

SECOND = 1_000_000
SCHEMA = pa.schema({"user": pa.string(), "amount": pa.int64(), "ts": pa.timestamp("us", "UTC")})
ROW = st.tuples(
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(-9, 9),
    st.none() | st.integers(0, 90),
)
BATCHES = st.lists(st.lists(ROW, max_size=6), min_size=1, max_size=5)
RESULTS = {"n": "count", "total": "sum(amount)", "most": "max(amount)"}
Rows = list[tuple[Any, ...]]


def table(rows: Rows) -> pa.Table:
    """Rows of user, amount and second."""
    users, amounts, seconds = zip(*rows, strict=True) if rows else ((), (), ())
    times = [None if second is None else int(second * SECOND) for second in seconds]
    return pa.table([list(users), list(amounts), pa.array(times, pa.int64()).cast(SCHEMA.field("ts").type)], SCHEMA)


def watermarks(batches: list[Rows], delay: int) -> list[tuple[int, int]]:
    """The watermark of each batch and of the one before, in seconds."""
    found, now, before = [], 0, 0
    for rows in batches:
        found.append((now, before))
        before = now
        now = max([now, *(int(second) - delay for _, _, second in rows if second is not None)])
    return found


def aggregated(rows: list[Any]) -> dict[str, Any]:
    values = [row[1] for row in rows if row[1] is not None]
    return {"n": len(rows), "total": sum(values) if values else None, "most": max(values, default=None)}


def by_windows(
    batches: list[Rows], size: int, slide: int, delay: int, mode: str
) -> tuple[list[list[dict[str, Any]]], list[int], int]:
    """Spark's way, one row and one window at a time; returns outputs, late pairs, and windows still open."""
    held: dict[tuple[Any, int], Rows] = {}
    outputs, late_counts = [], []
    for rows, (watermark, before) in zip(batches, watermarks(batches, delay), strict=True):
        changed, late = set(), set()
        for row in rows:
            if row[2] is None:
                continue
            for start in range(row[2] // slide * slide, row[2] - size, -slide):
                if start + size <= before:
                    late.add((row[0], start))
                else:
                    held.setdefault((row[0], start), []).append(row)
                    changed.add((row[0], start))
        closed = {window for window in held if window[1] + size <= watermark}
        shown = changed if mode == "update" else closed
        outputs.append([{"user": u, "start": s, "end": s + size, **aggregated(held[u, s])} for u, s in shown])
        held = {window: rows for window, rows in held.items() if window not in closed}
        late_counts.append(len(late))
    return outputs, late_counts, len({user for user, _ in held})


def by_sessions(batches: list[Rows], gap: int, delay: int) -> tuple[list[list[dict[str, Any]]], list[int], int]:
    """The same for sessions, of which there is append mode only."""
    held: list[tuple[Any, int, int, Rows]] = []
    outputs, late_counts = [], []
    for rows, (watermark, before) in zip(batches, watermarks(batches, delay), strict=True):
        late = 0
        for row in rows:
            if row[2] is None:
                continue
            if row[2] + gap <= before:
                late += 1
                continue
            user, start, end, members = row[0], row[2], row[2] + gap, [row]
            for other in [s for s in held if s[0] == user and s[1] <= end and start <= s[2]]:
                held.remove(other)
                start, end, members = min(start, other[1]), max(end, other[2]), members + other[3]
            held.append((user, start, end, members))
        closed = [session for session in held if session[2] <= watermark]
        outputs.append([{"user": u, "start": s, "end": e, **aggregated(members)} for u, s, e, members in closed])
        held = [session for session in held if session[2] > watermark]
        late_counts.append(late)
    return outputs, late_counts, len({session[0] for session in held})


def plain(output: pa.Table) -> list[dict[str, Any]]:
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    rows = []
    for row in output.to_pylist():
        (window,) = (row.pop(name) for name in ("window", "session_window") if name in row)
        rows.append({**row, **{name: round((at - epoch).total_seconds()) for name, at in window.items()}})
    return rows


def key_of(row: dict[str, Any]) -> str:
    return repr(sorted(row.items(), key=repr))


def assert_same(operator: Operator, batches: list[Rows], expected: Any, delay: int, seed: int, channels: int) -> None:
    outputs, late_counts, open_keys = expected
    tables = [table(rows) for rows in batches]
    steps = disturbed(tables, key="user", channels=channels, seed=seed) if channels > 1 else tables
    watermark = ("ts", f"{delay} seconds")
    result = run(operator, steps, key="user", watermark=watermark, channels=channels, seed=seed, isolated=True)
    for got, wanted in zip(result.outputs, outputs, strict=True):
        assert sorted(map(key_of, plain(got))) == sorted(map(key_of, wanted))
    if channels == 1:
        assert list(result.late_rows) == late_counts
    assert result.state.num_rows == open_keys


@given(
    batches=BATCHES,
    shape=st.sampled_from([(10, 10), (20, 10), (30, 20), (10, 7)]),
    delay=st.sampled_from([0, 15]),
    mode=st.sampled_from(["append", "update"]),
    channels=st.sampled_from([1, 3]),
)
@settings(max_examples=25)
def test_windows_are_those_of_a_plain_account(
    batches: list[Rows], shape: tuple[int, int], delay: int, mode: str, channels: int
) -> None:
    operator = WindowAggregate(f"{shape[0]} seconds", f"{shape[1]} seconds", output_mode=mode, **RESULTS)
    assert_same(
        operator, batches, by_windows(batches, *shape, delay, mode), delay, seed=len(batches), channels=channels
    )


@given(batches=BATCHES, gap=st.sampled_from([5, 12]), delay=st.sampled_from([0, 15]), channels=st.sampled_from([1, 3]))
@settings(max_examples=25)
def test_sessions_are_those_of_a_plain_account(batches: list[Rows], gap: int, delay: int, channels: int) -> None:
    operator = SessionAggregate(f"{gap} seconds", **RESULTS)
    assert_same(operator, batches, by_sessions(batches, gap, delay), delay, seed=len(batches), channels=channels)


def drifting(seed: int, batches: int = 4, rows: int = 60) -> list[pa.Table]:
    """Zipf keys that change their places, times out of order and late, nulls everywhere."""
    random = np.random.default_rng(seed)
    tables = []
    for batch in range(batches):
        users = [f"u{(int(n) + 5 * batch) % 12}" for n in random.zipf(1.4, rows)]
        seconds = batch * 30 + random.integers(-40, 30, rows)
        found = [
            (
                None if user == "u7" else user,
                None if random.random() < 0.1 else int(random.integers(-9, 9)),
                None if random.random() < 0.05 else max(0, int(second)),
            )
            for user, second in zip(users, seconds, strict=True)
        ]
        tables.append(table(found))
    return tables


@pytest.mark.parametrize(
    "operator",
    [
        WindowAggregate("20 seconds", "10 seconds", **RESULTS, distinct="approx_count_distinct(amount)"),
        WindowAggregate("20 seconds", output_mode="update", **RESULTS, top="top(amount, 2)"),
        SessionAggregate("4 seconds", **RESULTS, deviation="stddev(amount)"),
    ],
    ids=["sliding", "tumbling", "sessions"],
)
def test_has_every_property_of_an_operator(operator: Operator) -> None:
    check_operator(operator, drifting(1, 3, 20), key="user", watermark=("ts", "10 seconds"), seeds=1)


def test_first_and_last_follow_the_order_of_rows() -> None:
    rows = [("a", 1, 12), ("a", 2, 3), ("a", 3, 14), ("a", 4, 4)]
    results = {"first": "first(amount)", "last": "last(amount)"}
    operator = WindowAggregate("20 seconds", "10 seconds", output_mode="update", **results)
    assert not operator.bind(SCHEMA.with_metadata({EVENT_TIME_METADATA: "ts"}), ("user",)).commutative
    (output,) = run(operator, [table(rows)], key="user", watermark=("ts", "0 seconds")).outputs
    got = {row["start"]: (row["first"], row["last"]) for row in plain(output)}
    assert got == {-10: (2, 4), 0: (1, 4), 10: (1, 3)}


def test_windows_begin_where_they_are_told() -> None:
    rows = [("a", 1, 12), ("a", 2, 13), ("a", 3, 22)]
    operator = WindowAggregate("10 seconds", offset="3 seconds", output_mode="update", n="count")
    (output,) = run(operator, [table(rows)], key="user", watermark=("ts", "0 seconds")).outputs
    assert sorted((row["start"], row["n"]) for row in plain(output)) == [(3, 1), (13, 2)]


def test_without_a_watermark_nothing_is_late_and_nothing_forgotten() -> None:
    operator = WindowAggregate("10 seconds", on="ts", output_mode="update", n="count")
    result = run(operator, [table([("a", 1, 100)]), table([("a", 1, 5)]), table([])], key="user")
    assert [plain(output) for output in result.outputs] == [
        [{"user": "a", "n": 1, "start": 100, "end": 110}],
        [{"user": "a", "n": 1, "start": 0, "end": 10}],
        [],
    ]
    assert result.state.to_pylist()[0]["value.window.start"] == [0, 100 * SECOND]


def test_far_away_times_do_not_overflow() -> None:
    times = [-62_135_596_800, 253_402_300_799]
    rows = [("a", 1, times[0]), ("b", 1, times[1])]
    operator = WindowAggregate("1 microsecond", on="ts", output_mode="update", n="count")
    assert run(operator, [table(rows)], key="user").outputs[0].num_rows == 2


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: WindowAggregate("10 parsecs", n="count"), ArgumentError, "not a duration"),
        (lambda: WindowAggregate("1 month", n="count"), ArgumentError, "not a duration"),
        (lambda: WindowAggregate("0 seconds", n="count"), ArgumentError, "must be longer than zero"),
        (lambda: WindowAggregate("5 seconds", "10 seconds", n="count"), ArgumentError, "at most their size"),
        (lambda: WindowAggregate("5 seconds", output_mode="replace", n="count"), ArgumentError, "output mode"),
        (lambda: SessionAggregate("0 seconds", n="count"), ArgumentError, "must be longer than zero"),
        (lambda: WindowAggregate("5 seconds"), ArgumentError, "nothing to aggregate"),
        (lambda: WindowAggregate("5 seconds", n="count"), ArgumentError, "need a column of times"),
        (lambda: WindowAggregate("5 seconds", on="ts", n="count"), ArgumentError, "append mode needs a watermark"),
        (lambda: SessionAggregate("5 seconds", on="ts", n="count"), ArgumentError, "append mode needs a watermark"),
        (lambda: WindowAggregate("5 seconds", on="amount", n="count"), ColumnError, "column of timestamps"),
        (lambda: WindowAggregate("5 seconds", on="ts", window="count"), ArgumentError, "window itself has this name"),
    ],
)
def test_mistakes_are_told(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make().bind(SCHEMA, ("user",))


def test_is_a_plain_value() -> None:
    import pickle

    operator = WindowAggregate("10 minutes", "5 minutes", aggregates={"size": "count"})
    assert pickle.loads(pickle.dumps(operator)) == operator == eval(repr(operator))
    assert operator != WindowAggregate("10 minutes", aggregates={"size": "count"})
    sessions = SessionAggregate("10 minutes", n="count")
    assert eval(repr(sessions)) == sessions
    assert hash(operator) != hash(sessions)


def test_durations_in_words() -> None:
    assert microseconds("1 hour 30 minutes") == 5400 * SECOND
    assert microseconds("2 WEEKS") == 14 * 86400 * SECOND
    for wrong in ("", "ten minutes", "5", "5 minutes and", "minutes 5"):
        with pytest.raises(ArgumentError, match="not a duration"):
            microseconds(wrong)


def test_complete_mode_yields_all_windows_and_drops_nothing() -> None:
    times = [[3, 4, 12], [50], [], [1, 52]]
    tables = [
        pa.table({"key": ["a"] * len(each), "ts": pa.array([1_000_000 * t for t in each], pa.timestamp("us"))})
        for each in times
    ]
    operator = WindowAggregate("10 seconds", output_mode="complete", n="count")
    result = run(operator, tables, key="key", watermark=("ts", "0 seconds"))
    got = [{row["window"]["start"].second: row["n"] for row in output.to_pylist()} for output in result.outputs]
    assert got == [{0: 2, 10: 1}, {0: 2, 10: 1, 50: 1}, {0: 2, 10: 1, 50: 1}, {0: 3, 10: 1, 50: 2}]
    assert result.late_rows == (0, 0, 0, 0)


@pytest.mark.parametrize("make", [WindowAggregate, SessionAggregate])
def test_the_window_stands_where_it_is_placed(make: Any) -> None:
    rows = pa.table({"a": ["x"], "b": [1], "ts": pa.array([5_000_000], pa.timestamp("us"))})
    later = pa.table({"a": ["x"], "b": [1], "ts": pa.array([500_000_000], pa.timestamp("us"))})
    operator = make("10 seconds", n="count")
    plain, moved = (
        run(each, [rows, later, later.slice(0, 0)], key=["a", "b"], watermark=("ts", "0 seconds"))
        for each in (operator, operator.placed(1))
    )
    window = operator.output_column
    assert plain.outputs[2].column_names == ["a", "b", window, "n"]
    assert moved.outputs[2].column_names == ["a", window, "b", "n"]
    assert moved.outputs[2].select(plain.outputs[2].column_names).equals(plain.outputs[2])
    assert repr(operator.placed(1)) == f"{operator!r}.placed(1)"
