"""Exact distinct counts and sets of values: against plain sets and against Spark."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError
from unskew.operators import Aggregate, WindowAggregate
from unskew.operators.base import EVENT_TIME_METADATA
from unskew.testing import check_operator, run

NAN = math.nan
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "whole": (pa.int32(), [-(2**31), -1, 0, 7, 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 0, 2**53, 2**53 + 1, 2**63 - 1]),
    "real": (pa.float64(), [0.0, -0.0, NAN, -NAN, math.inf, -math.inf, 1.5]),
    "short": (pa.float32(), [0.0, -0.0, NAN, 0.5]),
    "price": (pa.decimal128(12, 2), [Decimal("-1.10"), Decimal("0.00"), Decimal("9999999999.99")]),
    "wide": (pa.decimal128(38, 0), [Decimal(10**37), Decimal(10**37 + 1), Decimal(-1)]),
    "word": (pa.string(), ["", "a", "B", "ä", "𝄞", "aa"]),
    "raw": (pa.binary(), [b"", b"\x00", b"\xff", b"a"]),
    "day": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)]),
    "at": (pa.timestamp("us", "UTC"), [datetime.datetime(1900 + n, 1, 1, tzinfo=datetime.UTC) for n in range(3)]),
    "flag": (pa.bool_(), [True, False]),
}
SCHEMA = pa.schema([("key", pa.string()), *((name, kind) for name, (kind, _) in VALUES.items())])
ROW = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", None]),
        **{name: st.none() | st.sampled_from(values) for name, (_, values) in VALUES.items()},
    }
)
RESULTS = {
    **{f"count_{name}": f"count_distinct({name})" for name in VALUES},
    **{f"set_{name}": f"collect_set({name}, 3)" for name in VALUES},
    "pairs": "count_distinct(real, word)",
    "triples": "count_distinct(flag, price, at)",
}


def plain(value: Any) -> Any:
    """A value that equals itself, in Spark's order."""
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def different(rows: list[dict[str, Any]], *names: str) -> list[Any]:
    found = {tuple(plain(row[name]) for name in names) for row in rows if all(row[name] is not None for name in names)}
    return sorted(found)


def reference(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        **{f"count_{name}": len(different(rows, name)) for name in VALUES},
        **{f"set_{name}": [value for (value,) in different(rows, name)[:3]] for name in VALUES},
        "pairs": len(different(rows, "real", "word")),
        "triples": len(different(rows, "flag", "price", "at")),
    }


def shown(row: dict[str, Any]) -> dict[str, Any]:
    return {name: [plain(v) for v in value] if isinstance(value, list) else value for name, value in row.items()}


@given(batches=st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=3))
@settings(max_examples=15)
def test_equals_plain_sets(batches: list[list[dict[str, Any]]]) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in batches]
    so_far: list[dict[str, Any]] = []
    for rows, output in zip(batches, run(Aggregate(**RESULTS), tables, key="key").outputs, strict=True):
        so_far += rows
        for got in output.to_pylist():
            expected = reference([row for row in so_far if row["key"] == got["key"]])
            assert shown(got) == {"key": got["key"], **expected}


def sample(seed: int, rows: int) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {
        name: pa.array(
            [None if random.random() < 0.1 else values[random.integers(len(values))] for _ in range(rows)], kind
        )
        for name, (kind, values) in VALUES.items()
    }
    return pa.table({"key": pa.array([f"k{n % 7}" for n in random.zipf(1.5, rows)]), **columns}, SCHEMA)


def test_has_every_property_of_an_operator() -> None:
    texts = ("count_distinct(real)", "count_distinct(real, word)", "collect_set(word, 3)")
    operator = Aggregate(**{f"r{place}": text for place, text in enumerate(texts)})
    check_operator(operator, [sample(seed, 20) for seed in range(3)], key="key", seeds=1)
    assert operator.bind(SCHEMA, ("key",)).splittable


@pytest.mark.spark
def test_results_are_those_of_spark(spark: Any) -> None:
    from pyspark.sql import functions as F

    batches = [sample(seed, 60) for seed in range(3)]
    operator = Aggregate(**{name: text.replace("3)", "100)") for name, text in RESULTS.items()})
    outputs = run(operator, batches, key="key", channels=2).outputs
    native = spark.createDataFrame(pa.concat_tables(batches)).groupBy("key")
    counts = native.agg(
        *(F.count_distinct(*text[15:-1].split(", ")).alias(n) for n, text in RESULTS.items() if "count" in text)
    )
    sets = native.agg(*(F.sort_array(F.collect_set(name)).alias(f"set_{name}") for name in VALUES))
    expected = {row["key"]: row.asDict() for row in counts.collect()}
    for row in sets.collect():
        expected[row["key"]] |= row.asDict()
    got = {row["key"]: row for output in outputs for row in output.to_pylist()}
    assert got.keys() == expected.keys()
    for key, row in got.items():
        naive = {**expected[key], "set_at": [at.astimezone(datetime.UTC) for at in expected[key]["set_at"]]}
        assert shown(row) == shown(naive)


def test_the_smallest_are_kept_whatever_the_order() -> None:
    rows = pa.table({"k": [1] * 50, "x": np.arange(50)})
    turned = rows.take(pa.array(np.arange(49, -1, -1)))
    for batches in ([rows], [turned], [turned.slice(n * 5, 5) for n in range(10)]):
        assert run(Aggregate(s="collect_set(x, 4)"), batches, key="k").outputs[-1]["s"].to_pylist() == [[0, 1, 2, 3]]


def test_says_whether_its_state_grows() -> None:
    assert Aggregate(s="collect_set(word, 3)").bind(SCHEMA, ("key",)).memory == "constant"
    assert Aggregate(n="count", d="count_distinct(word)").bind(SCHEMA, ("key",)).memory == "linear"
    timed = SCHEMA.with_metadata({EVENT_TIME_METADATA: "at"})
    assert WindowAggregate("1 day", d="count_distinct(word)").bind(timed, ("key",)).memory == "linear"
    assert WindowAggregate("1 day", d="count").bind(timed, ("key",)).memory == "constant"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("count_distinct()", ArgumentError, r"write count_distinct\(x\[, y, ...\]\)"),
        ("count_distinct(x,)", ArgumentError, "write count_distinct"),
        ("count_distinct(tags)", ColumnError, "count_distinct does not work on this type"),
        ("count_distinct(x, tags)", ColumnError, "count_distinct does not work on this type, got 'list"),
        ("collect_set(x)", ArgumentError, "how many values to keep"),
        ("collect_set(x, 0)", ArgumentError, "how many values to keep"),
        ("collect_set(x, 1, 2)", ArgumentError, r"write collect_set\(x, k\)"),
    ],
)
def test_mistakes_are_told(text: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Aggregate(r=text).bind(pa.schema({"k": pa.int64(), "x": pa.int32(), "tags": pa.list_(pa.string())}), ("k",))


def test_hints_spell_functions_with_their_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"count\[\(x\)\], sum\(x\), .*min_by\(x, y\), .*top\(x, k\), .*percent"):
        Aggregate(r="product(x)")
    with pytest.raises(ArgumentError, match=r"Hint: write min_by\(x, y\)\.$"):
        Aggregate(r="min_by(x)")
