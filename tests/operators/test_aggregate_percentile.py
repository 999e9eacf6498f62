"""Medians and percentiles: against plain computations, exact ranks, and Spark."""

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
from unskew.operators import Aggregate
from unskew.operators.aggregate_percentile import PercentileApprox
from unskew.state.groups import Groups
from unskew.testing import check_operator, run
from unskew.versions import SPARK

NUMBERS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "whole": (pa.int16(), st.integers(-9, 9)),
    "far": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, math.inf, -math.inf, math.nan])),
    "short": (pa.float32(), st.sampled_from([0.0, 0.125, -8.0, math.nan])),
    "price": (pa.decimal128(9, 2), st.decimals(-100, 100, places=2)),
    "wide": (pa.decimal128(38, 18), st.decimals(-(10**19), 10**19, places=18)),
}
SCHEMA = pa.schema([("key", pa.string()), *((name, kind) for name, (kind, _) in NUMBERS.items())])
ROW = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", None]),
        **{name: st.none() | values for name, (_, values) in NUMBERS.items()},
    }
)
RESULTS = {
    **{f"{name} at 0.5": f"median({name})" for name in NUMBERS},
    **{f"{name} at {share}": f"percentile({name}, {share})" for name in NUMBERS for share in (0.1, 0.75, 1)},
}


def in_order(values: list[Any]) -> list[Any]:
    return sorted(values, key=lambda value: (isinstance(value, float) and math.isnan(value), value))


def percentile(values: list[Any], share: float) -> float | None:
    """Spark's, on plain values."""
    values = in_order([value for value in values if value is not None])
    if not values:
        return None
    place = (len(values) - 1) * share
    low, high = values[math.floor(place)], values[math.ceil(place)]
    if low == high or math.floor(place) == math.ceil(place):
        return float(low)
    share = place - math.floor(place)
    if SPARK < (4, 3):
        return (math.ceil(place) - place) * float(low) + share * float(high)
    return float(low) + share * (float(high) - float(low))


def same(left: Any, right: Any) -> bool:
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@given(batches=st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=3))
@settings(max_examples=12)
def test_equals_a_plain_computation(batches: list[list[dict[str, Any]]]) -> None:
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in batches]
    so_far: list[dict[str, Any]] = []
    for rows, output in zip(batches, run(Aggregate(**RESULTS), tables, key="key").outputs, strict=True):
        so_far += rows
        for got in output.to_pylist():
            for name in RESULTS:
                column, share = name.split(" at ")
                expected = percentile([row[column] for row in so_far if row["key"] == got["key"]], float(share))
                assert same(got[name], expected), (name, got[name], expected)


def sample(seed: int, rows: int) -> pa.Table:
    """Zipf keys and values of every type; ``four`` is 1, 2, 3 and 4 of one key, then null."""
    random = np.random.default_rng(seed)

    def with_nulls(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array([None if random.random() < 0.1 else value for value in values], kind)

    days = random.integers(0, 20_000, rows).tolist()
    return pa.table(
        {
            "key": pa.array(["k0"] * 5 + [f"k{n % 7}" for n in random.zipf(1.5, rows - 5)]),
            "whole": with_nulls(random.integers(-99, 99, rows).tolist(), pa.int32()),
            "long": with_nulls(random.integers(-(2**52), 2**52, rows).tolist(), pa.int64()),
            "real": with_nulls((random.normal(size=rows) * 1e3).tolist(), pa.float64()),
            "short": with_nulls(random.choice([0.1, 0.5, -3.0], rows).tolist(), pa.float32()),
            "edge": pa.array(random.choice([math.inf, -math.inf, 1e300, -0.0, 0.0, 1.0, math.nan], rows)),
            "price": with_nulls([Decimal(n) / 100 for n in random.integers(-999, 999, rows).tolist()], PRICE),
            "wide": pa.array([Decimal(n).scaleb(-5) for n in random.integers(2**62, 2**63 - 1, rows).tolist()], WIDE),
            "day": with_nulls([datetime.date(1970, 1, 1) + datetime.timedelta(n) for n in days], pa.date32()),
            "at": with_nulls([n * 86_400_000_001 for n in days], pa.timestamp("us", "UTC")),
            "four": pa.array([n if seed == 0 and 0 < n < 5 else None for n in range(rows)], pa.int64()),
        }
    )


PRICE, WIDE = pa.decimal128(9, 2), pa.decimal128(30, 5)
SHARES = ("0", "0.1", "0.5", "0.77", "1.0")
NUMERIC = ("whole", "long", "real", "short", "edge", "price", "wide")
APPROXIMATED = ("whole", "long", "real", "short", "price", "day", "at")


def spark_texts() -> dict[str, str]:
    exact = {f"{n}_{s.replace('.', '_')}": f"percentile({n}, {s})" for n in NUMERIC for s in SHARES}
    near = {f"near_{n}_{s.replace('.', '_')}": f"percentile_approx({n}, {s})" for n in APPROXIMATED for s in SHARES}
    return {
        **exact,
        **near,
        **{f"median_{n}": f"median({n})" for n in NUMERIC},
        "rough": "approx_percentile(real, 0.3, 1000)",
        "last": "percentile_approx(four, 0.75, 4)",  # exactly 1 - 1 / accuracy
    }


@pytest.mark.spark
def test_results_and_types_are_those_of_spark(spark: Any) -> None:
    from pyspark.sql import functions as F

    from unskew.versions.arrow import to_arrow_schema

    batches = [sample(seed, 80) for seed in range(3)]
    texts = spark_texts()
    outputs = run(Aggregate(**texts), batches, key="key", channels=2).outputs
    frame = spark.createDataFrame(pa.concat_tables(batches)).coalesce(1)
    native = frame.groupBy("key").agg(*(F.expr(text).alias(name) for name, text in texts.items()))
    assert outputs[0].schema.types == to_arrow_schema(native.schema, timezone="UTC").types
    expected = {row["key"]: row.asDict() for row in native.collect()}
    got = {row["key"]: row for output in outputs for row in output.to_pylist()}
    assert got.keys() == expected.keys()
    for key, row in got.items():
        wrong = {name: (row[name], value) for name, value in expected[key].items() if not alike(row[name], value)}
        assert wrong == {}, key


def alike(left: Any, right: Any) -> bool:
    if isinstance(right, datetime.datetime):
        right = right.astimezone(datetime.UTC)
    return type(left) is type(right) and same(left, right)


def test_has_every_property_of_an_operator() -> None:
    texts = {"m": "median(real)", "p": "percentile(price, 0.9)", "a": "percentile_approx(at, 0.3)"}
    operator = Aggregate(**texts)
    check_operator(operator, [sample(seed, 30) for seed in range(3)], key="key", seeds=1)
    assert operator.bind(sample(0, 9).schema, ("key",)).splittable


def groups(rows: int) -> Groups:
    return Groups(np.zeros(1, np.int64), pa.table({}), np.zeros(rows, np.int64))


def summary(share: float, accuracy: int) -> PercentileApprox:
    return PercentileApprox("p", (pa.field("x", pa.int64()),), (repr(share), str(accuracy)))


def merged(states: list[list[pa.Array]], accuracy: int) -> list[pa.Array]:
    columns = [pa.concat_arrays(column) for column in zip(*states, strict=True)]
    return summary(0.5, accuracy).merge(columns, groups(len(states)))


def lifted(values: list[int], accuracy: int) -> list[pa.Array]:
    return summary(0.5, accuracy).lift([pa.array(values, pa.int64())], groups(len(values)))


def rank_error(values: list[int], result: int, share: float, accuracy: int) -> int:
    """How far the rank wanted is from the ranks that the result has in the data."""
    assert result in values
    below, up_to = sum(value < result for value in values), sum(value <= result for value in values)
    rank = max(1, math.ceil(share * len(values)))
    if share <= 1 / accuracy:
        rank = 1
    elif share >= 1 - 1 / accuracy:
        rank = len(values)
    return max(0, below + 1 - rank, rank - up_to)


@given(
    data=st.data(),
    accuracy=st.integers(1, 12),
    shares=st.lists(st.floats(0, 1), min_size=1, max_size=4),
    parts=st.lists(
        st.lists(st.integers(-20, 20), max_size=30) | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60),
        min_size=1,
        max_size=6,
    ),
)
@settings(max_examples=150)
def test_ranks_are_off_by_at_most_n_over_the_accuracy(
    data: st.DataObject, accuracy: int, shares: list[float], parts: list[list[int]]
) -> None:
    """Whatever the values, the batches and the order of merges."""
    values = [value for part in parts for value in part]
    states = [lifted(part, accuracy) for part in parts]
    while len(states) > 1:
        chosen = data.draw(st.integers(2, len(states)))
        states = data.draw(st.permutations(states))
        states = [merged(states[:chosen], accuracy), *states[chosen:]]
    for share in shares:
        (result,) = summary(share, accuracy).finish(states[0]).to_pylist()
        if not values:
            assert result is None
            continue
        error = rank_error(values, result, share, accuracy)
        assert error <= len(values) // accuracy
        if len(set(values)) <= 4 * accuracy:
            assert error == 0, "it is exact while there are few values"


@pytest.mark.parametrize("shape", ["random", "rising", "nested"])
def test_a_summary_stays_small_and_keeps_its_bounds(shape: str) -> None:
    accuracy, count, batch = 20, 20_000, 130
    values = np.random.default_rng(0).permutation(count) if shape == "random" else np.arange(count)
    if shape == "nested":
        values = np.where(values % 2, count - values, values)
    state = lifted(values[:batch].tolist(), accuracy)
    for start in range(batch, count, batch):
        state = merged([state, lifted(values[start : start + batch].tolist(), accuracy)], accuracy)
        assert len(state[0].flatten()) <= 6 * accuracy
    kept, up_to, below = (column.flatten().to_numpy() for column in state)
    assert up_to.sum() == below.sum() == count
    ordered = np.sort(values)
    assert (np.cumsum(up_to) <= np.searchsorted(ordered, kept, side="right")).all()
    assert (np.cumsum(below) - below >= np.searchsorted(ordered, kept, side="left")).all()
    for share in np.linspace(0.06, 0.94, 20).tolist():
        (result,) = summary(share, accuracy).finish(state).to_pylist()
        assert abs(np.searchsorted(ordered, result) + 1 - math.ceil(share * count)) <= count // accuracy


def test_nan_is_the_greatest() -> None:
    rows = pa.table({"k": [1] * 4, "x": [math.nan, 1.0, -0.0, 2.0]})
    texts = {"least": "percentile_approx(x, 0.0)", "most": "percentile_approx(x, 1.0)", "m": "percentile(x, 1)"}
    (row,) = run(Aggregate(**texts), [rows], key="k").outputs[0].to_pylist()
    assert row["least"] == 0.0
    assert math.isnan(row["most"])
    assert math.isnan(row["m"])


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("percentile(x)", ArgumentError, "not a percentage"),
        ("percentile(x, 1.5)", ArgumentError, "not a percentage, got '1.5'"),
        ("percentile(x, nan)", ArgumentError, "not a percentage"),
        ("percentile(x, half)", ArgumentError, "not a percentage"),
        ("percentile(x, 0.5, 2)", ArgumentError, r"write percentile\(x, p\)"),
        ("percentile(word, 0.5)", ColumnError, "percentile does not work on this type"),
        ("median(day)", ColumnError, "median does not work on this type"),
        ("median(x, 1)", ColumnError, "no column of that name"),
        ("percentile_approx(x, 0.5, 0)", ArgumentError, "not an accuracy, got '0'"),
        ("percentile_approx(x, 0.5, 1e3)", ArgumentError, "not an accuracy"),
        ("approx_percentile(x, 2)", ArgumentError, "not a percentage"),
        ("percentile_approx(word, 0.5)", ColumnError, "percentile_approx does not work on this type"),
    ],
)
def test_mistakes_are_told(text: str, error: type[Exception], message: str) -> None:
    schema = pa.schema({"k": pa.int64(), "x": pa.int32(), "word": pa.string(), "day": pa.date32()})
    with pytest.raises(error, match=message):
        Aggregate(r=text).bind(schema, ("k",))
