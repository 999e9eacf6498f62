"""An operator that reads only the columns it needs has the same results and state as one that reads all of them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.operators.test_matrix import CASES, DELAY, stream, table

from unskew.operators import (
    Aggregate,
    DecisionTree,
    IntervalJoin,
    Operator,
    SelfJoin,
    SessionAggregate,
    WindowAggregate,
)
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.testing import run

BATCHES = [rows[:40] for rows in stream("drifting")]
KINDS = {
    "coded": (pa.dictionary(pa.int8(), pa.string()), "x"),
    "nested": (pa.list_(pa.struct({"x": pa.int8(), "y": pa.list_(pa.string())})), [{"x": 1, "y": ["z", None]}]),
    "pairs": (pa.map_(pa.string(), pa.int32()), [("x", 1)]),
    "digits": (pa.decimal256(60, 5), Decimal("1.5")),
    "bytes": (pa.binary(3), b"xyz"),
    "lasting": (pa.duration("ns"), 5),
    "daily": (pa.time64("us"), 5),
    "nothing": (pa.null(), None),
    "ab_id": (pa.large_string(), "named almost like a column of a"),
    "leaf": (pa.float16(), 1.0),  # a tree's messages have a column of this name
}
"""Columns that nobody asked for: a type and a value each."""


@dataclass(frozen=True)
class Case:
    """An operator, the columns of the matrix that it runs on, and the columns that it must read; () stands for all."""

    operator: Operator
    columns: tuple[str, ...]
    reads: tuple[str, ...] = ()
    key: str = "user"
    time: str | None = None

    @property
    def tables(self) -> list[pa.Table]:
        """The matrix's rows, with other columns before, between and behind."""
        return [odd(table(rows, self.columns)) for rows in BATCHES]

    @property
    def schema(self) -> pa.Schema:
        metadata = {"other": "kept"} if self.time is None else {"other": "kept", EVENT_TIME_METADATA: self.time}
        return self.tables[0].schema.with_metadata(metadata)

    def run(self, tables: list[pa.Table]) -> Any:
        watermark = None if self.time is None else (self.time, f"{DELAY} seconds")
        return run(self.operator, tables, key=self.key, watermark=watermark, channels=2, slots=16)


def odd(rows: pa.Table) -> pa.Table:
    """Return the rows with the columns of `KINDS` among them; every third value is null."""
    names, columns = [], []
    for place, (name, (kind, value)) in enumerate(KINDS.items()):
        values = [None if row % 3 == 0 else value for row in range(rows.num_rows)]
        names += [name, *rows.column_names[place : place + 1]]
        columns += [pa.array(values, kind), *rows.columns[place : place + 1]]
    return pa.table(dict(zip(names, columns, strict=True)))


READ = {
    "Aggregate": ("user", "amount"),
    "WindowAggregate": ("user", "at"),
    "SessionAggregate": ("user", "at"),
    "Aggregate: different values": ("user", "amount", "word"),
    "WindowAggregate: different values": ("user", "at", "amount", "word"),
    "SessionAggregate: different values": ("user", "at", "amount", "word"),
    "History": (),
    "SelfJoin": ("user", "at", "id"),
    "IntervalJoin": ("user", "input", "time", "a_id", "b_id"),
    "TableJoin": (),
    "ProgressiveSort": (),
    "HeavyHitters": ("user", "word"),
    "HeaviestKeys": ("user",),
    "Histogram": ("user", "amount"),
    "NaiveBayes": ("word", "label"),
    "NaiveBayesClassifier": ("id", "words", "told"),
    "DecisionTree": ("id", "amount", "label"),
}
"""The columns that each operator of the matrix must read; () if it needs whole rows."""

MOST = ("label", "word", "amount", "id", "at", "user")

READERS = {name: Case(case.operator, case.columns, READ[name], case.key, case.time) for name, case in CASES.items()} | {
    "count of rows": Case(Aggregate(n="count"), MOST, ("user",)),
    "count of values": Case(Aggregate(n="count(word)"), MOST, ("word", "user")),
    "two columns": Case(Aggregate(n="max_by(word, amount)", id="first(id)"), MOST, ("word", "amount", "id", "user")),
    "count with a watermark": Case(Aggregate(n="sum(id)", t="max(at)"), MOST, ("id", "at", "user"), time="at"),
    "windows of values": Case(
        WindowAggregate("20 seconds", x="sum(amount)", y="count(word)"),
        MOST,
        ("word", "amount", "at", "user"),
        time="at",
    ),
    "windows without a watermark": Case(
        WindowAggregate("20 seconds", on="at", output_mode="update", n="count"), MOST, ("at", "user")
    ),
    "sessions of values": Case(
        SessionAggregate("4 seconds", x="sum(amount)"), MOST, ("amount", "at", "user"), time="at"
    ),
    "pairs by a condition": Case(
        SelfJoin("at", "6 seconds", columns=["id"], where="left_id < right_id"), MOST, ("id", "at", "user")
    ),
    "pairs that show all": Case(SelfJoin("at", "6 seconds"), ("user", "id", "at"), time="at"),
    "streams of similar names": Case(
        IntervalJoin("a", "ab", earliest="-2 seconds", latest="8 seconds", how="left"),
        ("input", "time", "b_id", "a_id", "user"),
        ("input", "time", "a_id", "ab_id", "user"),
        time="time",
    ),
    "labels that are numbers": Case(DecisionTree(["id"], [1, 2], min_rows=20), MOST, ("amount", "id"), key="amount"),
}


@pytest.mark.parametrize("name", READERS)
def test_the_columns_are_those_needed_in_the_order_of_the_input(name: str) -> None:
    case = READERS[name]
    bound, names = case.operator.bind(case.schema, (case.key,)), case.schema.names
    expected = {*case.reads} if case.reads else {*names}
    assert bound.columns_read == tuple(each for each in names if each in expected)


@pytest.mark.parametrize("name", READERS)
def test_an_operator_on_fewer_columns_is_the_same(name: str) -> None:
    case = READERS[name]
    wide = case.operator.bind(case.schema, (case.key,))
    fewer = pa.schema([case.schema.field(each) for each in wide.columns_read], case.schema.metadata)
    narrow = case.operator.bind(fewer, (case.key,))
    for what in ("key", "key_schema", "value_schema", "output_schema", "result_schema", "output_key", "event_time"):
        assert getattr(narrow, what) == getattr(wide, what), what
    for what in ("deadline", "time_mode", "output_mode", "splittable", "columns_read"):
        assert getattr(narrow, what) == getattr(wide, what), what
    assert repr(narrow) == repr(wide)
    assert repr(wide.bind(fewer, (case.key,))) == repr(wide), "a bound operator can be bound again"


@pytest.mark.parametrize("name", READERS)
def test_results_and_state_are_the_same(name: str) -> None:
    case, tables = READERS[name], READERS[name].tables
    names = case.operator.bind(case.schema, (case.key,)).columns_read
    wide, narrow = case.run(tables), case.run([rows.select(names) for rows in tables])
    assert sum(output.num_rows for output in wide.outputs) > 0
    assert narrow == wide
    assert narrow.late_rows == wide.late_rows
    assert [output.schema for output in narrow.outputs] == [output.schema for output in wide.outputs]
    assert narrow.state.schema == wide.state.schema


def test_time_that_the_operator_does_not_look_at_is_not_read() -> None:
    schema = pa.schema({"user": pa.string(), "at": pa.timestamp("us"), "made": pa.timestamp("us"), "x": pa.int64()})
    marked = schema.with_metadata({EVENT_TIME_METADATA: "at"})
    windows = WindowAggregate("20 seconds", on="made", output_mode="update", n="count").bind(marked, ("user",))
    assert windows.columns_read == ("user", "made")
    assert Aggregate(n="sum(x)").bind(marked, ("user",)).columns_read == ("user", "x")


def test_the_sides_of_pairs_are_read() -> None:
    at = pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us"))
    rows = pa.table({"x": [1, 2, 3], "right": [False, True, True], "at": at, "left": [True, False, True]})
    rows = rows.append_column("id", pa.array([5, 6, 7])).append_column("user", pa.array(["ada"] * 3))
    join = SelfJoin("at", "6 seconds", columns=["id"], sides=["left", "right"])
    names = join.bind(rows.schema, ("user",)).columns_read
    assert names == ("right", "at", "left", "id", "user")
    wide, narrow = run(join, [rows], key="user"), run(join, [rows.select(names)], key="user")
    assert [(row["left_id"], row["right_id"]) for row in wide.outputs[0].to_pylist()] == [(5, 6), (5, 7), (7, 7)]
    assert narrow == wide


def test_event_time_is_read_by_whoever_goes_by_it() -> None:
    class Timed(Aggregate):
        time_mode = "event"

    schema = pa.schema({"at": pa.timestamp("us"), "x": pa.int64(), "user": pa.string()})
    assert Timed(n="count").bind(schema, ("user",)).columns_read == ("user",)
    marked = schema.with_metadata({EVENT_TIME_METADATA: "at"})
    assert Timed(n="count").bind(marked, ("user",)).columns_read == ("at", "user")
