"""Keys and values of every kind through operators, with moves, aborts and restarts, against plain dictionaries."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DecimalType, LongType, StringType, StructType

from unskew.errors import ColumnError, KeyTypeError, UnskewError
from unskew.operators import Aggregate, History, Operator, SessionAggregate, WindowAggregate
from unskew.spark.per_key.lean_function import LeanFunction
from unskew.spark.per_key.rows import Rows
from unskew.testing import disturbed, run
from unskew.testing.compare import alike

UTC = dt.UTC
TEXTS = ["", " ", "\0", "a", "A", "a\0", "\u00e9", "e\u0301", "\U0001f642", "a.b", "`", "x" * 5000, "None", "nan"]
FLOATS = [0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 1.5, 5e-324, 1.7976931348623157e308]
SINGLES = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, 1e-45]
DAYS = [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(9999, 12, 31)]
TIMES = [dt.datetime(1, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 456789)]
TIMES += [dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]


def whole(bits: int) -> list[int]:
    return [0, 1, -1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))]


KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    **{f"int{bits}": (getattr(pa, f"int{bits}")(), whole(bits)) for bits in (8, 16, 32, 64)},
    "float": (pa.float32(), SINGLES),
    "double": (pa.float64(), FLOATS),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.10"), Decimal("-0.00"), Decimal("0.00"), Decimal("-9999999.99")]),
    "wide decimal": (pa.decimal128(38, 10), [Decimal(10) ** 27, Decimal("-1E-10"), Decimal(0)]),
    "date": (pa.date32(), DAYS),
    "timestamp": (pa.timestamp("us", "UTC"), [time.replace(tzinfo=UTC) for time in TIMES]),
    "timestamp_ntz": (pa.timestamp("us"), TIMES),
    "interval": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(-1), dt.timedelta(microseconds=1)]),
    "string": (pa.string(), TEXTS),
    "large string": (pa.large_string(), TEXTS),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), TEXTS),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"\xff\xfe", b"x" * 3000]),
    "boolean": (pa.bool_(), [True, False]),
    "struct": (pa.struct({"a.b": pa.int32(), "c`d": pa.string()}), [{"a.b": 1, "c`d": "x"}, {"a.b": 1, "c`d": None}]),
    "list": (pa.list_(pa.float64()), [[], [0.0], [-0.0], [math.nan], [None], [0.0, 1.0]]),
    "nested": (
        pa.list_(pa.struct({"x": pa.list_(pa.string())})),
        [[], [None], [{"x": None}], [{"x": []}], [{"x": ["", None]}], [{"x": ["a"]}, {"x": ["b"]}]],
    ),
    "list of structs": (pa.struct({"x": pa.list_(pa.int8())}), [{"x": None}, {"x": []}, {"x": [1]}, {"x": [1, None]}]),
}
NAMES = [
    "k",
    "K",
    "a.b",
    "back`tick",
    "with space",
    "",
    "n'",
    "hash",
    "key.k",
    "value.n",
    "\u00e9",
    "e\u0301",
    "sum(x)",
]


@dataclass(frozen=True)
class Stream:
    """The batches of a stream and how it is disturbed."""

    key: tuple[str, ...]
    batches: list[pa.Table]
    channels: int
    seed: int

    def run(self, operator: Operator, **options: Any) -> Any:
        steps = disturbed(self.batches, key=self.key, channels=self.channels, slots=8, seed=self.seed)
        return run(operator, steps, key=self.key, channels=self.channels, slots=8, seed=self.seed, **options)

    def keys(self, batch: pa.Table) -> list[Any]:
        return list(zip(*(map(plain, batch.column(name).to_pylist()) for name in self.key), strict=True))


def plain(value: Any) -> Any:
    """Return a value such that equal keys are equal, and no others: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else ("float", value + 0.0)
    if isinstance(value, dict):
        return tuple((name, plain(each)) for name, each in value.items())
    if isinstance(value, list):
        return tuple(map(plain, value))
    return value


@st.composite
def streams(draw: st.DrawFn, columns: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]]) -> Stream:
    """Draw one to three key columns of any kind, the other columns, and some batches, empty ones too."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    kinds = [KINDS[kind] for kind in draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=3))]
    batches = []
    for size in draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)):
        arrays = {
            name: pa.array([draw(st.sampled_from([*odd, None])) for _ in range(size)], kind)
            for name, (kind, odd) in zip(names, kinds, strict=False)
        }
        arrays |= {name: pa.array([draw(each) for _ in range(size)], kind) for name, (kind, each) in columns.items()}
        batches.append(pa.table(arrays))
    return Stream(tuple(names), batches, draw(st.integers(1, 4)), draw(st.integers(0, 99)))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole number": (pa.int32(), maybe(st.sampled_from(whole(32)))),
    "float.number": (pa.float64(), maybe(st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1.5, 2.25]))),
    "text": (pa.string(), maybe(st.sampled_from(TEXTS))),
    "amount": (pa.decimal128(9, 2), maybe(st.sampled_from([Decimal("-0.01"), Decimal("9999999.99"), Decimal(0)]))),
}


def least(values: list[Any]) -> Any:
    """Return the least value; NaN is greater than all other numbers."""
    return min(values, key=order, default=None)


def greatest(values: list[Any]) -> Any:
    return max(values, key=order, default=None)


def order(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


def total(values: list[Any]) -> Any:
    return sum(values) if values else None


AGGREGATES: dict[str, tuple[str, Callable[[dict[str, list[Any]], int], Any]]] = {
    "rows": ("count", lambda values, rows: rows),
    "texts": ("count(text)", lambda values, rows: len(values["text"])),
    "whole": ("sum(whole number)", lambda values, rows: total(values["whole number"])),
    "floats": ("sum(float.number)", lambda values, rows: total(values["float.number"])),
    "money": ("sum(amount)", lambda values, rows: total(values["amount"])),
    "low": ("min(float.number)", lambda values, rows: least(values["float.number"])),
    "high": ("max(float.number)", lambda values, rows: greatest(values["float.number"])),
    "first text": ("min(text)", lambda values, rows: least(values["text"])),
    "last text": ("max(text)", lambda values, rows: greatest(values["text"])),
    "mean.": (
        "mean(whole number)",
        lambda values, rows: statistics.fmean(values["whole number"]) if values["whole number"] else None,
    ),
    "different": ("count_distinct(text)", lambda values, rows: len(set(values["text"]))),
    "set`": ("collect_set(text, 100)", lambda values, rows: set(values["text"])),
}


@settings(max_examples=12)
@given(streams(VALUES))
def test_aggregates_of_any_values_by_any_key(stream: Stream) -> None:
    expected: dict[Any, dict[str, list[Any]]] = {}
    result = stream.run(Aggregate(**{name: call for name, (call, _) in AGGREGATES.items()}))
    for batch, output in zip(stream.batches, result.outputs, strict=True):
        keys = stream.keys(batch)
        for key, row in zip(keys, batch.select(list(VALUES)).to_pylist(), strict=True):
            held = expected.setdefault(key, {name: [] for name in ("", *VALUES)})
            held[""].append(key)
            for name, value in row.items():
                if value is not None:
                    held[name].append(value)
        assert sorted(map(repr, stream.keys(output))) == sorted(map(repr, set(keys)))
        for key, row in zip(stream.keys(output), output.to_pylist(), strict=True):
            for name, (_, reference) in AGGREGATES.items():
                got = set(row[name]) if name == "set`" else row[name]
                assert alike(reference(expected[key], len(expected[key][""])), got, 1e-12), (name, key)
    assert result.state.num_rows == len(expected)


@settings(max_examples=12)
@given(streams(VALUES), st.integers(1, 4))
def test_histories_of_any_values_by_any_key(stream: Stream, length: int) -> None:
    calls = {"n_": "count(text)", "most": "max(float.number)", "before": "first(text)", "all": "sum(whole number)"}
    result = stream.run(History(length, **calls))
    held: dict[Any, list[Any]] = {}
    for batch, output in zip(stream.batches, result.outputs, strict=True):
        found = []
        for key, row in zip(stream.keys(batch), batch.select(list(VALUES)).to_pylist(), strict=True):
            last = held[key] = [*held.get(key, []), row][-length:]
            texts = [each["text"] for each in last if each["text"] is not None]
            floats = [each["float.number"] for each in last if each["float.number"] is not None]
            numbers = [each["whole number"] for each in last if each["whole number"] is not None]
            found.append((key, len(texts), plain(greatest(floats)), last[0]["text"], total(numbers)))
        columns = [map(plain, output.column(name).to_pylist()) for name in calls]
        got = list(zip(stream.keys(output), *columns, strict=True))
        assert sorted(map(repr, got)) == sorted(map(repr, found))


TOLD = StructType().add("key", StringType()).add("rows", LongType()).add("text", StringType())
KEPT = StructType().add("rows", LongType()).add("money", DecimalType(38, 2)).add("text", StringType())


def told(value: Any) -> str:
    """Return a key's value as text, the same for Python's and NumPy's times."""
    if isinstance(value, np.datetime64):
        value = value.item()
    if isinstance(value, dt.datetime):
        value = value.replace(tzinfo=None)
    return repr(plain(value))


def tell(key: tuple[Any, ...], rows: Rows, state: tuple[Any, ...] | None) -> Any:
    """Count rows, add up money and keep the last text; every fifth row, forget the key."""
    number, money, text = state or (0, Decimal(0), None)
    number += len(rows)
    money += sum(amount for amount in rows["amount"] if amount is not None)
    text = [text, *(each for each in rows["text"] if each is not None)][-1]
    output = (repr(tuple(map(told, key))), number, f"{money:.2f} {text}")
    return (None if number >= 5 else (number, money, text)), output


@settings(max_examples=12)
@given(streams(VALUES))
def test_a_lean_function_is_called_with_every_key_and_its_own_state(stream: Stream) -> None:
    result = stream.run(LeanFunction(tell, TOLD, KEPT))
    held: dict[Any, tuple[int, Decimal, Any]] = {}
    for batch, output in zip(stream.batches, result.outputs, strict=True):
        keys, names = stream.keys(batch), {}
        for key, row in zip(keys, batch.to_pylist(), strict=True):
            names[key] = repr(tuple(told(row[name]) for name in stream.key))
            number, money, text = held.get(key, (0, Decimal(0), None))
            held[key] = number + 1, money + (row["amount"] or 0), text if row["text"] is None else row["text"]
        expected = [(names[key], held[key][0], f"{held[key][1]:.2f} {held[key][2]}") for key in names]
        assert sorted(map(tuple, (row.values() for row in output.to_pylist()))) == sorted(expected)
        held = {key: state for key, state in held.items() if state[0] < 5}
    assert result.state.num_rows == len(held)


SECOND = 1_000_000
EVENTS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "at ": (pa.timestamp("us", "UTC"), maybe(st.integers(-25 * SECOND, 25 * SECOND).map(lambda us: us // 7 * 7))),
    "x": (pa.int64(), maybe(st.integers(-5, 5))),
}


def micros(time: dt.datetime) -> int:
    return round((time - dt.datetime(1970, 1, 1, tzinfo=UTC)) / dt.timedelta(microseconds=1))


def events_of(stream: Stream, batch: pa.Table) -> list[tuple[Any, int, Any]]:
    rows = zip(
        stream.keys(batch), batch.column("at ").cast(pa.int64()).to_pylist(), batch["x"].to_pylist(), strict=True
    )
    return [row for row in rows if row[1] is not None]


@settings(max_examples=12)
@given(streams(EVENTS), st.sampled_from([(10, 10), (10, 5), (7, 3)]))
def test_windows_in_update_mode_without_a_watermark(stream: Stream, shape: tuple[int, int]) -> None:
    size, slide = (seconds * SECOND for seconds in shape)
    operator = WindowAggregate(
        f"{shape[0]} seconds", f"{shape[1]} seconds", on="at ", output_mode="update", n="count", most="max(x)"
    )
    result = stream.run(operator)
    held: dict[Any, list[Any]] = {}
    for batch, output in zip(stream.batches, result.outputs, strict=True):
        changed = set()
        for key, time, x in events_of(stream, batch):
            start = time // slide * slide
            while start > time - size:
                held.setdefault((key, start), []).append(x)
                changed.add((key, start))
                start -= slide
        got = {
            (key, micros(row["window"]["start"])): (row["n"], row["most"])
            for key, row in zip(stream.keys(output), output.to_pylist(), strict=True)
        }
        assert got == {
            each: (len(held[each]), max((x for x in held[each] if x is not None), default=None)) for each in changed
        }


@settings(max_examples=12)
@given(streams(EVENTS | {"at ": (pa.timestamp("us", "UTC"), maybe(st.integers(0, 50 * SECOND)))}), st.integers(1, 20))
def test_sessions_are_put_out_once_and_hold_every_row(stream: Stream, gap: int) -> None:
    """Nothing after 1970 is late behind such a delay; a last batch far ahead closes all."""
    later = pa.array([10_000 * SECOND], pa.timestamp("us", "UTC"))
    far = {name: pa.nulls(1, stream.batches[0].schema.field(name).type) for name in stream.batches[0].column_names}
    last = pa.table(far | {"at ": later}, schema=stream.batches[0].schema)
    whole = Stream(stream.key, [*stream.batches, last, last.slice(0, 0)], stream.channels, stream.seed)
    result = whole.run(SessionAggregate(f"{gap} seconds", n="count", x_="sum(x)"), watermark=("at ", "1 minute"))
    expected: list[Any] = []
    rows = sorted((event for batch in stream.batches for event in events_of(stream, batch)), key=lambda row: row[1])
    for key in {row[0] for row in rows}:
        session: list[Any] = []
        for _, time, x in [row for row in rows if row[0] == key]:
            if session and time > session[-1][0] + gap * SECOND:
                expected.append((key, session))
                session = []
            session = [*session, (time, x)]
        expected.append((key, session))
    got = [
        (key, micros(row["session_window"]["start"]), micros(row["session_window"]["end"]), row["n"], row["x_"])
        for output in result.outputs
        for key, row in zip(stream.keys(output), output.to_pylist(), strict=True)
    ]
    wanted = [
        (key, rows[0][0], rows[-1][0] + gap * SECOND, len(rows), total([x for _, x in rows if x is not None]))
        for key, rows in expected
    ]
    assert sorted(map(repr, got)) == sorted(map(repr, wanted))
    assert sum(result.late_rows) == 0


REFUSED: dict[str, pa.DataType] = {
    "unsigned": pa.uint64(),
    "map": pa.map_(pa.string(), pa.int64()),
    "map in a list": pa.list_(pa.map_(pa.string(), pa.int64())),
    "wide decimal": pa.decimal256(50, 2),
    "date in milliseconds": pa.date64(),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("size", [0, 2])
def test_keys_of_kinds_that_spark_cannot_group_are_refused_with_a_hint(name: str, size: int) -> None:
    rows = pa.table({"k": pa.nulls(size, REFUSED[name])})
    try:
        run(Aggregate(n="count"), [rows], key="k")
    except UnskewError as error:
        assert isinstance(error, (ColumnError, KeyTypeError)) and error.hint
    else:
        assert size == 0, "only a stream without rows may pass"
