"""Rows by time, as far as settled, against a sort of all rows that were not late."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.hashing import hash_keys
from unskew.operators import Clock, ProgressiveSort
from unskew.state import KeyedState, MemoryStore
from unskew.testing import check_operator, disturbed, run

START = datetime(2024, 1, 1)
SCHEMA = pa.schema({"user": pa.string(), "ts": pa.timestamp("us"), "id": pa.int64()})
DELAY = 5
ROW = st.tuples(st.sampled_from(["ada", "bob", None]), st.none() | st.integers(0, 40).map(lambda n: n / 2))
WATERMARK = ("ts", f"{DELAY} seconds")

Rows = list[tuple[Any, Any, int]]


def table(rows: Rows) -> pa.Table:
    columns = [
        [user for user, _, _ in rows],
        [None if at is None else START + timedelta(seconds=at) for _, at, _ in rows],
        [number for *_, number in rows],
    ]
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def reference(batches: list[Rows]) -> tuple[list[Rows], list[int]]:
    """Sort, for each batch, what lies between its watermark and the one before; count rows that came too late."""
    before, watermark, held, found, late = -1e9, -1e9, list[tuple[Any, Any, int]](), list[Rows](), list[int]()
    for rows in batches:
        timed = [row for row in rows if row[1] is not None]
        held += [row for row in timed if row[1] > before]
        late.append(sum(row[1] <= before for row in timed))
        found.append(sorted([row for row in held if row[1] <= watermark], key=lambda row: row[1]))
        held = [row for row in held if row[1] > watermark]
        before = watermark
        watermark = max([watermark, *(row[1] - DELAY for row in timed)])
    return found, late


def numbered(batches: list[list[tuple[Any, Any]]]) -> list[Rows]:
    numbers = iter(range(10**9))
    return [[(user, at, next(numbers)) for user, at in rows] for rows in batches]


@given(batches=st.lists(st.lists(ROW, max_size=10), min_size=1, max_size=5), channels=st.integers(1, 2))
@settings(max_examples=20)
def test_rows_come_when_they_are_settled(batches: list[list[tuple[Any, Any]]], channels: int) -> None:
    rows = numbered(batches)
    steps = disturbed(list(map(table, rows)), key="user", channels=channels, seed=1)
    result = run(ProgressiveSort("ts"), steps, key="user", channels=channels, watermark=WATERMARK)
    expected, late = reference(rows)
    assert [sorted(output["id"].to_pylist()) for output in result.outputs] == [
        sorted(n for *_, n in e) for e in expected
    ]
    assert list(result.late_rows) == late


def test_rows_of_a_key_come_by_time_and_equal_times_as_they_arrived() -> None:
    schema = SCHEMA.with_metadata({b"unskew.event_time": b"ts"})
    operator = ProgressiveSort("ts").bind(schema, ("user",))
    state = KeyedState.open(
        MemoryStore(), operator.key_schema, operator.value_schema, slots=4, deadline=operator.deadline
    )
    until_ms = int((START - datetime(1970, 1, 1)).total_seconds() * 1000) + 10_000
    for rows in (
        [("ada", 9, 1), ("bob", 3, 2), ("ada", 2, 3)],
        [("ada", 9, 4), ("ada", 1, 5), ("ada", 11, 6), ("bob", 1, 7)],
    ):
        batch = table(rows)
        operator.update(state, state.group(batch, hash_keys(batch, "user")), batch, Clock(0, 0, 0, 0))
    output = operator.expire(state, Clock(1, 0, until_ms, 0)).to_pylist()
    assert [row["id"] for row in output if row["user"] == "ada"] == [5, 3, 1, 4]
    assert [row["id"] for row in output if row["user"] == "bob"] == [7, 2]
    assert state.rows == 1, "of ada one row is held back, of bob nothing"


def test_has_the_properties_of_an_operator() -> None:
    batches = numbered([[("ada", 1), ("bob", 9), ("ada", 4)], [("ada", 2), (None, 14), ("bob", None)], [("ada", 30)]])
    check_operator(ProgressiveSort("ts"), list(map(table, batches)), key="user", watermark=WATERMARK, seeds=2)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: ProgressiveSort("ts").bind(SCHEMA, ("user",)), ArgumentError, "needs a watermark"),
        (lambda: ProgressiveSort("id").bind(SCHEMA, ("user",)), ColumnError, "a timestamp"),
        (lambda: ProgressiveSort("at").bind(SCHEMA, ("user",)), ColumnError, "no column"),
        (lambda: ProgressiveSort("ts").bind(SCHEMA, ("user", "ts")), ArgumentError, "part of the key"),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    assert repr(ProgressiveSort("ts")) == "ProgressiveSort('ts')"
    assert pickle.loads(pickle.dumps(ProgressiveSort("ts"))) == ProgressiveSort("ts") != ProgressiveSort("at")
