"""Every form of a grouped function on static rows, beside Spark's own: rows, order, frames, and what is an error."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

import unskew
from unskew.errors import ColumnError
from unskew.versions import SPARK

pytestmark = pytest.mark.spark

QUICK = {
    *("keyed_frame", "keyed_batches"),
    *("expressions, one with a name", "a map", "windows", "nothing"),
    *("three arguments", "a schema of one type", "too many columns"),
}


def quick_ones(cases: Iterable[Any]) -> list[Any]:
    """Mark all cases as slow but a few."""
    names = [getattr(case, "__name__", case) for case in cases]
    marks = [() if name in QUICK else pytest.mark.slow for name in names]
    return [pytest.param(case, id=name, marks=mark) for case, name, mark in zip(cases, names, marks, strict=True)]


SCHEMA = (
    "User string, n int, price double, paid decimal(8,2), at timestamp, day date, raw binary, flag boolean, "
    "s struct<x:int,y:string>, m map<string,int>, pair array<int>"
)
SEEN = "key string, seen string, kinds string, n long"


@pytest.fixture(scope="module")
def rows(spark: Any) -> Any:
    """Give rows of many types with nulls everywhere; the key u0 has 60 % of them. One partition fixes their order."""
    random = np.random.default_rng(5)
    start, data = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), []
    for i, (u, n) in enumerate(zip(random.integers(1, 12, 400), random.integers(0, 5, 400), strict=True)):
        number, at = int(n), start + datetime.timedelta(seconds=7 * i)
        row = (
            "u0" if i % 5 < 3 else f"u{u}",
            number,
            [0.0, -0.0, float("nan"), 1.5, -2.0][number],
            Decimal(i) / 100,
            at,
            at.date(),
            bytes([number]),
            bool(i % 2),
            (number, "xyz"[number % 3]),
            {"a": number, "b": 1} if i % 2 else {"b": 1, "a": number},
            [number, i],
        )
        data.append(tuple(None if (i * 7 + place) % 31 == 0 else value for place, value in enumerate(row)))
    return spark.createDataFrame(data, SCHEMA).coalesce(1).cache()


def shown(key: Any, values: Any, kinds: Any) -> dict[str, list[Any]]:
    """Say what a function got: the key with its types, the rows in their order, and the types of the columns."""
    key = [(type(part).__name__, str(part)) for part in key]
    return {"key": [str(key)], "seen": [str(values)], "kinds": [str(kinds)], "n": [len(values)]}


def frame(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(shown((), rows.values.tolist(), [*rows.columns, *rows.dtypes, rows.index]))


def keyed_frame(key: Any, rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(shown(key, rows.values.tolist(), [*rows.columns, *rows.dtypes]))


def frames(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for each in rows:
        yield frame(each)


def keyed_frames(key: tuple[Any, ...], rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for each in rows:
        yield keyed_frame(key, each)


def table(rows: pa.Table) -> pa.Table:
    return pa.table(shown((), rows.to_pylist(), rows.schema))


def keyed_table(key: Any, rows: pa.Table) -> pa.Table:
    return pa.table(shown(key, rows.to_pylist(), rows.schema))


def batches(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for each in rows:
        yield pa.RecordBatch.from_pydict(shown((), each.to_pylist(), each.schema))


def keyed_batches(key: tuple[pa.Scalar, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for each in rows:
        yield pa.RecordBatch.from_pydict(shown(key, each.to_pylist(), each.schema))


def first_batch_only(key: tuple[pa.Scalar, ...], rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Leave rows unread."""
    yield pa.RecordBatch.from_pydict(shown(key, next(rows).to_pylist(), "first"))


PANDAS: list[Callable[..., Any]] = [frame, keyed_frame, frames, keyed_frames]
ARROW: list[Callable[..., Any]] = [table, keyed_table, batches, keyed_batches, first_batch_only]


def in_pandas(groups: Any, function: Any) -> Any:
    return groups.applyInPandas(function, SEEN)


def in_arrow(groups: Any, function: Any) -> Any:
    return groups.applyInArrow(function, SEEN)


def same(native: Any, ours: Any) -> int:
    assert ours.schema == native.schema
    expected = sorted(map(tuple, native.collect()))
    assert sorted(map(tuple, ours.collect())) == expected
    return len(expected)


@pytest.mark.parametrize("form", quick_ones([*PANDAS, *ARROW]))
def test_every_form_sees_and_gives_what_it_does_under_spark(spark: Any, rows: Any, form: Any) -> None:
    if SPARK < (4, 1) and "Iterator" in str(form.__annotations__):
        pytest.skip("before 4.1 functions take whole groups")
    call = in_pandas if form in PANDAS else in_arrow
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "30")
    try:
        found = same(
            call(rows.groupBy("User", "flag"), form), call(unskew.balance(rows, "User", "flag", channels=3), form)
        )
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert found > 20


KEYS: dict[str, Callable[[], list[Any]]] = {
    "another case": lambda: ["USER"],
    "a list": lambda: [["User", F.col("n")]],
    "expressions, one with a name": lambda: [F.lower("User").alias("who"), F.col("n") % 2],
    "a field and its struct": lambda: ["s.x", F.col("S.Y"), "s"],
    "a map": lambda: ["m"],
    "an expression over a map, and an array": lambda: [F.map_filter("m", lambda key, value: key == "a"), "pair"],
    "floats": lambda: ["price"],
    "decimals and times": lambda: ["paid", "at", "day"],
    "bytes and truth": lambda: ["raw", "flag"],
    "one column twice": lambda: ["n", "N"],
    "a number": lambda: [2],
    "windows": lambda: [F.window("at", "10 minutes"), "flag"],
    "sliding windows": lambda: [F.window("at", "10 minutes", "5 minutes")],
    "sessions": lambda: [F.session_window("at", "5 minutes"), "n"],
    "one for all rows": lambda: [F.lit("x")],
    "nothing": lambda: [],
    "an empty list": lambda: [[]],
}


@pytest.mark.parametrize("key", quick_ones(KEYS))
def test_every_key_is_what_it_is_under_spark(rows: Any, key: str) -> None:
    given = KEYS[key]()
    balanced = unskew.balance(rows, *given, channels=3)
    same(in_arrow(rows.groupBy(*given), any_order), in_arrow(balanced, any_order))
    same(in_pandas(rows.groupBy(*given), any_frame), in_pandas(balanced, any_frame))


def any_order(key: Any, rows: pa.Table) -> pa.Table:
    """Sort the rows of a key: Spark's own sort by a single number may change their order."""
    return pa.table(shown(key, sorted(map(str, rows.to_pylist())), rows.schema))


def any_frame(key: Any, rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(shown(key, sorted(map(str, rows.values.tolist())), [*rows.columns, *rows.dtypes]))


def test_names_count_their_case_if_spark_is_told_to(spark: Any, rows: Any) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        both = rows.select("User", "n", F.lower("User").alias("user"))
        same(in_arrow(both.groupBy("user"), keyed_table), in_arrow(unskew.balance(both, "user"), keyed_table))
        with pytest.raises(ColumnError, match="no column of that name, got 'N'"):
            unskew.balance(both, "N")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_random_key_is_drawn_once(rows: Any) -> None:
    drawn = unskew.balance(rows, F.floor(F.rand(1) * 3), channels=2)
    found = drawn.applyInPandas(lambda key, rows: pd.DataFrame({"k": [key[0]], "n": [len(rows)]}), "k long, n long")
    found = found.collect()
    assert sum(row["n"] for row in found) == 400
    assert sorted(row["k"] for row in found) == [0, 1, 2]


def test_the_order_is_sparks_where_it_is_fixed(spark: Any, rows: Any) -> None:
    """One partition of Spark's against one channel: keys in Spark's order, and the rows of a key as they came."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        for key in (["User", "price"], ["s"], [F.lower("User"), "raw"]):
            native = [tuple(row) for row in in_pandas(rows.groupBy(*key), keyed_frame).collect()]
            ours = [tuple(row) for row in in_pandas(unskew.balance(rows, *key, channels=1), keyed_frame).collect()]
            assert ours == native
    finally:
        spark.conf.unset("spark.sql.shuffle.partitions")


def test_no_rows_and_one_key(rows: Any) -> None:
    none, one = rows.where("false"), rows.where("User = 'u0'")
    for given in (["User"], [F.lower("User")], []):
        assert (
            same(in_pandas(none.groupBy(*given), keyed_frame), in_pandas(unskew.balance(none, *given), keyed_frame))
            == 0
        )
        assert same(in_arrow(one.groupBy(*given), table), in_arrow(unskew.balance(one, *given), table)) == 1


def test_a_wide_key(spark: Any) -> None:
    wide = spark.range(300).select(*[(F.col("id") % (2 + i % 3)).alias(f"k{i}") for i in range(40)], "id")
    given = [f"K{i}" for i in range(40)]
    balanced = unskew.balance(wide, given, channels=4)
    assert same(in_pandas(wide.groupBy(given), keyed_frame), in_pandas(balanced, keyed_frame)) == 12


def pair(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return keyed_pair((), left, right)


def keyed_pair(key: Any, left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    kinds = [*left.columns, *left.dtypes, *right.columns, *right.dtypes]
    return pd.DataFrame(shown(key, [*left.values.tolist(), "|", *right.values.tolist()], kinds))


def tables(left: pa.Table, right: pa.Table) -> pa.Table:
    return keyed_tables((), left, right)


def keyed_tables(key: Any, left: pa.Table, right: pa.Table) -> pa.Table:
    return pa.table(shown(key, [*left.to_pylist(), "|", *right.to_pylist()], [left.schema, right.schema]))


@pytest.mark.parametrize("form", quick_ones([pair, keyed_pair, tables, keyed_tables]))
def test_cogroups_in_every_form(spark: Any, rows: Any, form: Any) -> None:
    others = spark.createDataFrame(
        [(f"U{i}", i % 3, None if i % 4 else i) for i in range(16)] + [(None, 1, 5)], "name string, N int, bonus int"
    ).coalesce(1)
    call = in_pandas if form in (pair, keyed_pair) else in_arrow
    for mine, theirs in (([F.upper("User"), "n"], ["name", "n"]), (["User"], [F.lower("name")]), ([], [])):
        native = rows.groupBy(*mine).cogroup(others.groupBy(*theirs))
        ours = unskew.balance(rows, *mine, channels=3).cogroup(unskew.balance(others, *theirs))
        same(call(native, form), call(ours, form))


def wrong_hint(rows: Iterator[pd.DataFrame], more) -> Iterator[pd.DataFrame]:  # type: ignore[no-untyped-def]
    yield from rows


def number_of_frames(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    return 5  # type: ignore[return-value]


def frames_and_numbers(rows: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield 5  # type: ignore[misc]


def batches_as_a_list(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return list(rows)  # type: ignore[return-value]


def batches_as_tables(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for each in rows:
        yield pa.Table.from_batches([each])  # type: ignore[misc]


def failing(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield next(rows)
    raise ValueError("no such luck")


class Counting:
    """Methods as functions: Spark counts ``self`` as an argument."""

    def one(self, rows: pd.DataFrame) -> pd.DataFrame:
        return rows

    def two(self, key: Any, rows: pd.DataFrame) -> pd.DataFrame:
        return rows


MISTAKES: dict[str, tuple[str, Any, Any]] = {
    "no arguments": ("applyInPandas", lambda: None, "n long"),
    "three arguments": ("applyInPandas", lambda a, b, c: a, "n long"),
    "a method": ("applyInPandas", Counting().one, "id long"),
    "a method with the key": ("applyInPandas", Counting().two, "id long"),
    "three arguments in Arrow": ("applyInArrow", lambda a, b, c: a, "n long"),
    "a schema of one type": ("applyInPandas", lambda rows: rows, "int"),
    "no schema": ("applyInPandas", lambda rows: rows, None),
    "a schema that cannot be parsed": ("applyInPandas", lambda rows: rows, "n lonk"),
    "a type without Arrow": ("applyInArrow", lambda rows: rows, "n interval year to month"),
    "half of the hints": ("applyInPandas", wrong_hint, "n long"),
    "half of the hints in Arrow": ("applyInArrow", wrong_hint, "n long"),
    "a list": ("applyInPandas", lambda rows: [1], "n long"),
    "nothing": ("applyInPandas", lambda key, rows: None, "n long"),
    "a frame for Arrow": ("applyInArrow", lambda rows: rows.to_pandas(), "n long"),
    "too many columns": ("applyInPandas", lambda rows: pd.DataFrame([[1, 2]]), "n long"),
    "other names": ("applyInPandas", lambda rows: pd.DataFrame({"a": [1], "b": [2]}), "a long, c long"),
    "other names in Arrow": ("applyInArrow", lambda rows: pa.table({"a": [1], "b": [2]}), "a long, c long"),
    "another type": ("applyInPandas", lambda rows: pd.DataFrame({"a": ["x"]}), "a long"),
    "another type in Arrow": ("applyInArrow", lambda rows: pa.table({"a": ["x"]}), "a long"),
    "a number for frames": ("applyInPandas", number_of_frames, "n int"),
    "a number among frames": ("applyInPandas", frames_and_numbers, "n int"),
    "a list of batches": ("applyInArrow", batches_as_a_list, "n int"),
    "tables for batches": ("applyInArrow", batches_as_tables, "n int"),
    "an error in the middle": ("applyInArrow", failing, "id long"),
    "an error": ("applyInPandas", lambda key, rows: 1 / 0, "id long"),
}
MISTAKES_IN_PAIRS: dict[str, tuple[str, Any, Any]] = {
    "one argument": ("applyInPandas", lambda a: a, "n long"),
    "four arguments": ("applyInArrow", lambda a, b, c, d: a, "n long"),
    "a number": ("applyInPandas", lambda left, right: 5, "n long"),
    "a frame for Arrow": ("applyInArrow", lambda left, right: left.to_pandas(), "n long"),
    "other names": ("applyInPandas", lambda key, left, right: pd.DataFrame({"a": [1]}), "b long"),
    "other names in Arrow": ("applyInArrow", lambda key, left, right: pa.table({"a": [1]}), "b long"),
}


def mistake(groups: Any, method: str, function: Any, schema: Any) -> tuple[str, str | None, str, list[str]]:
    """Return what an error is: its type, Spark's class of it, its last line, and what warned before."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            getattr(groups, method)(function, schema).collect()
        except Exception as error:
            condition = error.getCondition() if isinstance(error, PySparkException) else None
            lines = [line for line in str(error).split("\nJVM stacktrace")[0].strip().split("\n") if line]
            last = [line for line in lines if not line.startswith("in the call for key")][-1]
            told = sorted({str(each.message) for each in heard if "eval type" in str(each.message)})
            return type(error).__name__, condition, last.strip(), told
    raise AssertionError("this was accepted")


@pytest.mark.parametrize("name", quick_ones(MISTAKES))
def test_a_mistake_is_told_as_spark_tells_it(spark: Any, name: str) -> None:
    rows = spark.range(4)
    assert mistake(unskew.balance(rows, "id", channels=2), *MISTAKES[name]) == mistake(
        rows.groupBy("id"), *MISTAKES[name]
    )


@pytest.mark.parametrize("name", quick_ones(MISTAKES_IN_PAIRS))
def test_a_mistake_with_a_pair_is_told_as_spark_tells_it(spark: Any, name: str) -> None:
    rows = spark.range(4)
    ours = unskew.balance(rows, "id", channels=2).cogroup(unskew.balance(rows, "id"))
    native = rows.groupBy("id").cogroup(rows.groupBy("id"))
    assert mistake(ours, *MISTAKES_IN_PAIRS[name]) == mistake(native, *MISTAKES_IN_PAIRS[name])


def test_pairs_by_another_number_of_keys(spark: Any) -> None:
    rows = spark.range(4).withColumn("k", F.lit(1))

    def told(one: Any, two: Any) -> str:
        with pytest.raises(PySparkException) as error:
            one.cogroup(two).applyInPandas(lambda left, right: left, "id long").collect()
        return str(error.value).split("\n")[0]

    native = told(rows.groupBy("id"), rows.groupBy("id", "k"))
    assert told(unskew.balance(rows, "id"), unskew.balance(rows, "id", "k")) == native
