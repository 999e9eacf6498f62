"""Variances, first and last, by another column, top values, distinct counts: against plain computations and Spark."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError, KeyTypeError
from unskew.operators import Aggregate
from unskew.testing import check_operator, run

PRICE = pa.decimal128(9, 2)
SCHEMA = pa.schema({"key": pa.string(), "whole": pa.int32(), "real": pa.float64(), "word": pa.string(), "price": PRICE})
ROW = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", None]),
        "whole": st.none() | st.integers(-50, 50),
        "real": st.none() | st.sampled_from([0.0, 1.5, -2.25, 1e6, math.inf, math.nan]),
        "word": st.none() | st.text("abcé", max_size=2),
        "price": st.none() | st.decimals(min_value=-100, max_value=100, places=2),
    }
)
RESULTS = {
    "pop": "var_pop(whole)",
    "samp": "variance(whole)",
    "price_dev": "stddev_pop(price)",
    "real_dev": "std(real)",
    "first_word": "first(word)",
    "last_word": "last(word)",
    "last_real": "last( real , TRUE )",
    "first_whole": "first(whole, true)",
    "latest": "max_by(word, whole)",
    "earliest": "min_by(whole, word)",
    "top_real": "top(real, 2)",
    "top_word": "top(word, 3)",
    "words": "approx_count_distinct(word)",
}


def order(value: Any) -> tuple[bool, Any]:
    """NaN is the greatest."""
    return (isinstance(value, float) and math.isnan(value), value)


def reference(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """All results, one value after the other."""

    def of(name: str) -> list[Any]:
        return [row[name] for row in rows if row[name] is not None]

    def by(value: str, other: str, pick: Any) -> Any:
        pairs = [(row[value], row[other]) for row in rows if row[other] is not None]
        if not pairs:
            return None
        best = pick((pair[1] for pair in pairs), key=order)
        return pick((value for value, other in pairs if other == best and value is not None), default=None, key=order)

    def deviation(values: list[Any], fewer: int) -> float | None:
        if len(values) <= fewer:
            return None
        if not all(math.isfinite(value) for value in values):
            return math.nan
        mean = math.fsum(values) / len(values)
        return math.fsum((value - mean) ** 2 for value in values) / (len(values) - fewer)

    def root(value: float | None) -> float | None:
        return None if value is None else math.sqrt(value)

    return {
        "pop": deviation(of("whole"), 0),
        "samp": deviation(of("whole"), 1),
        "price_dev": root(deviation([float(value) for value in of("price")], 0)),
        "real_dev": root(deviation(of("real"), 1)),
        "first_word": rows[0]["word"],
        "last_word": rows[-1]["word"],
        "last_real": of("real")[-1] if of("real") else None,
        "first_whole": of("whole")[0] if of("whole") else None,
        "latest": by("word", "whole", max),
        "earliest": by("whole", "word", min),
        "top_real": sorted(of("real"), key=order, reverse=True)[:2],
        "top_word": sorted(of("word"), reverse=True)[:3],
        "words": len(set(of("word"))),
    }


def same(left: Any, right: Any) -> bool:
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        nan = math.isnan(left) and math.isnan(right)
        return nan or left == right or math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-12)
    return type(left) is type(right) and left == right


@given(batches=st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=3))
@settings(max_examples=20)
def test_equals_a_plain_computation(batches: list[list[dict[str, Any]]]) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in batches]
    result = run(Aggregate(**RESULTS), tables, key="key", isolated=True)
    so_far: list[dict[str, Any]] = []
    for rows, output in zip(batches, result.outputs, strict=True):
        so_far += rows
        assert output.num_rows == len({row["key"] for row in rows})
        for got in output.to_pylist():
            expected = reference([row for row in so_far if row["key"] == got["key"]])
            wrong = {name: (got[name], expected[name]) for name in expected if not same(got[name], expected[name])}
            assert wrong == {}


def zipf_batches(seed: int, batches: int = 3, rows: int = 120) -> list[pa.Table]:
    """Zipf keys that drift, with nulls among keys and values."""
    random = np.random.default_rng(seed)
    tables = []
    for batch in range(batches):
        keys = [f"k{(n + 3 * batch) % 20}" for n in random.zipf(1.3, rows)]
        tables.append(
            pa.table(
                {
                    "key": pa.array([None if key == "k7" else key for key in keys]),
                    "whole": pa.array(random.integers(-99, 99, rows), pa.int32(), mask=random.random(rows) < 0.1),
                    "real": pa.array(random.normal(size=rows) * 1e3, mask=random.random(rows) < 0.1),
                    "word": pa.array(random.choice(["x", "yy", "", "é"], rows), mask=random.random(rows) < 0.1),
                    "price": pa.array([Decimal(int(n)) / 100 for n in random.integers(-999, 999, rows)], PRICE),
                }
            )
        )
    return tables


def test_has_every_property_of_an_operator() -> None:
    check_operator(Aggregate(**RESULTS), zipf_batches(1, rows=30), key="key", seeds=1)


def test_order_matters_only_where_it_is_said() -> None:
    assert not Aggregate(**RESULTS).bind(SCHEMA, ("key",)).commutative
    rest = {name: text for name, text in RESULTS.items() if not text.startswith(("first", "last"))}
    assert Aggregate(**rest).bind(SCHEMA, ("key",)).commutative
    check_operator(Aggregate(**rest), zipf_batches(2, rows=30), key="key", seeds=1)


@pytest.mark.spark
def test_results_and_types_are_those_of_spark(spark: Any) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    batches = zipf_batches(3, rows=200)
    texts = {name: text for name, text in RESULTS.items() if "_by" not in text and not text.startswith("top")}
    texts |= {"by": "max_by(whole, real)"}
    texts |= {"values": "approx_count_distinct(real)", "fine": "approx_count_distinct(real, 0.02)"}
    result = run(Aggregate(**texts, top="top(real, 3)"), batches, key="key", channels=2)
    rows = pa.concat_tables(batches)
    frame = spark.createDataFrame(rows).coalesce(1)
    native = frame.groupBy("key").agg(
        *(F.expr(text).alias(name) for name, text in texts.items()),
        F.expr("slice(sort_array(collect_list(real), false), 1, 3)").alias("top"),
    )
    assert result.outputs[0].schema.types[:-1] == to_arrow_schema(native.schema).types[:-1]
    expected = {row["key"]: row.asDict() for row in native.collect()}
    got = {row["key"]: row for output in result.outputs for row in output.to_pylist()}
    assert got.keys() == expected.keys()
    for key, row in got.items():
        wrong = {name: (row[name], value) for name, value in expected[key].items() if not same(row[name], value)}
        assert wrong == {}, key


@pytest.mark.spark
def test_distinct_counts_are_those_of_spark_up_to_400_and_near_beyond(spark: Any) -> None:
    from pyspark.sql import functions as F

    sizes = [0, 1, 5, 50, 300, 1000, 3000, 6000]
    key = np.repeat(np.arange(len(sizes)), np.maximum(sizes, 1))
    value = np.concatenate([np.arange(max(size, 1)) * 7919 + 13 for size in sizes])
    rows = pa.table({"key": key, "value": pa.array(value, mask=np.arange(len(key)) == 0)})
    again = rows.take(pa.array(np.random.default_rng(0).permutation(len(key))[:5000]))
    operator = Aggregate(n="approx_count_distinct(value)", fine="approx_count_distinct(value, 0.01)")
    got = run(operator, [rows, again, again.slice(0, 9)], key="key", channels=2)
    ours = {row["key"]: row for output in got.outputs for row in output.to_pylist()}
    native = spark.createDataFrame(rows)
    for row in native.groupBy("key").agg(F.approx_count_distinct("value").alias("n")).collect():
        size, count = sizes[row["key"]], ours[row["key"]]["n"]
        assert count == row["n"] or (size > 400 and abs(count / size - 1) < 3 * 0.046), (size, count, row["n"])
        assert abs(ours[row["key"]]["fine"] - size) <= 0.04 * size


def test_distinct_counts_keep_their_stated_error() -> None:
    """A standard error of at most 4.6 % over 400 keys with 2,000 values each, and no bias to speak of."""
    keys, size = 400, 2000
    rows = pa.table({"key": np.repeat(np.arange(keys), size), "value": np.arange(keys * size)})
    (output,) = run(Aggregate(n="approx_count_distinct(value)"), [rows], key="key").outputs
    errors = np.array(output["n"].to_pylist()) / size - 1
    assert abs(float(errors.mean())) < 4 * 0.046 / math.sqrt(keys)
    assert statistics.pstdev(errors.tolist()) < 1.1 * 0.046


def test_types_and_zeros_count_as_one_value_where_spark_says_so() -> None:
    rows = pa.table({"k": [1] * 5, "x": [0.0, -0.0, math.nan, float("nan"), 1.0]})
    assert run(Aggregate(n="approx_count_distinct(x)"), [rows], key="k").outputs[0]["n"].to_pylist() == [3]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("top(x)", ArgumentError, "how many values"),
        ("top(x, 0)", ArgumentError, "how many values"),
        ("top(x, many)", ArgumentError, "how many values"),
        ("top(tags, 2)", ColumnError, "does not work on this type"),
        ("first(x, maybe)", ArgumentError, "true or false"),
        ("first()", ArgumentError, "no such aggregate"),
        ("max_by(x)", ArgumentError, "no such aggregate"),
        ("max_by(x, tags)", ColumnError, "has no order"),
        ("max_by(x, x, x)", ArgumentError, "no such aggregate"),
        ("sum(x, x)", ColumnError, "no column of that name"),
        ("approx_count_distinct(x, 2)", ArgumentError, "not a relative error"),
        ("approx_count_distinct(x, few)", ArgumentError, "not a relative error"),
        ("approx_count_distinct(map)", KeyTypeError, "map"),
        ("variance(word)", ColumnError, "does not work on this type"),
    ],
)
def test_mistakes_are_told_when_it_is_bound(text: str, error: type[Exception], message: str) -> None:
    schema = pa.schema(
        {
            "k": pa.int64(),
            "x": pa.int32(),
            "word": pa.string(),
            "tags": pa.list_(pa.string()),
            "map": pa.map_(pa.string(), pa.int32()),
        }
    )
    with pytest.raises(error, match=message):
        Aggregate(r=text).bind(schema, ("k",))
