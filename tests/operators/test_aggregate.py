"""Running aggregates against a plain computation over all rows so far, and against Spark."""

from __future__ import annotations

import copy
import datetime
import math
import pickle
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError, RangeError
from unskew.operators import Aggregate, Clock
from unskew.operators.aggregate import expression_column
from unskew.operators.partials import merge_partials, partial_states
from unskew.state import KeyedState, MemoryStore
from unskew.state.groups import group_rows
from unskew.testing import ABORT, MOVE, MOVE_SLOT, RESTART, disturbed, run

COLUMNS = {
    "whole": pa.int32(),
    "long": pa.int64(),
    "far": pa.int64(),
    "real": pa.float64(),
    "short": pa.float32(),
    "price": pa.decimal128(12, 2),
    "word": pa.string(),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "flag": pa.bool_(),
}
SUMMED = ["whole", "long", "real", "short", "price"]  # sums of the far ones may leave the range of longs
NUMERIC = [*SUMMED, "far"]
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(10**15), 10**15),
    "far": st.integers(-(2**63), 2**63 - 1),
    "real": st.sampled_from([0.0, 1.5, -2.25, 1e6, math.inf, math.nan]),
    "short": st.sampled_from([0.0, 0.5, -8.0, math.nan]),
    "price": st.decimals(min_value=-(10**9), max_value=10**9, places=2),
    "word": st.text(max_size=3),
    "day": st.dates(),
    "at": st.datetimes(min_value=datetime.datetime(1900, 1, 1), timezones=st.just(datetime.UTC)),
    "flag": st.booleans(),
}
SCHEMA = pa.schema([("key", pa.string()), *COLUMNS.items()])
ROW = st.fixed_dictionaries(
    {"key": st.sampled_from(["a", "b", None]), **{name: st.none() | values for name, values in VALUES.items()}}
)
EVERYTHING = {
    "rows": "count",
    **{f"count_{name}": f"count({name})" for name in COLUMNS},
    **{f"sum_{name}": f"sum({name})" for name in SUMMED},
    **{f"mean_{name}": f"mean({name})" for name in NUMERIC},
    **{f"{name}_{which}": f"{which}({name})" for name in COLUMNS for which in ("min", "max")},
}


def reference(function: str, values: list[Any]) -> Any:
    """Spark's aggregates, one value after the other."""
    values = [value for value in values if value is not None]
    if function == "count":
        return len(values)
    if not values:
        return None
    if function in ("min", "max"):
        ordered = sorted(values, key=lambda value: (isinstance(value, float) and math.isnan(value), value))
        return ordered[0 if function == "min" else -1]
    if function == "mean" and isinstance(values[0], int):
        values = [float(value) for value in values]
    total = sum(values[1:], values[0])
    if function == "sum":
        return total
    if isinstance(total, Decimal):
        with localcontext(prec=60):
            return (total / len(values)).quantize(Decimal("1e-6"), ROUND_HALF_UP)
    return total / len(values)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right)) or math.isclose(left, right, rel_tol=1e-12)
    return type(left) is type(right) and left == right


@given(batches=st.lists(st.lists(ROW, max_size=8), min_size=1, max_size=4))
@settings(max_examples=30)
def test_equals_a_plain_computation(batches: list[list[dict[str, Any]]]) -> None:
    result = run(Aggregate(**EVERYTHING), [pa.Table.from_pylist(rows, SCHEMA) for rows in batches], key="key")
    so_far: list[dict[str, Any]] = []
    for rows, output in zip(batches, result.outputs, strict=True):
        so_far += rows
        assert sorted(output["key"].to_pylist(), key=str) == sorted({row["key"] for row in rows}, key=str)
        for got in output.to_pylist():
            of_key = [row for row in so_far if row["key"] == got["key"]]
            assert got["rows"] == len(of_key)
            for name, text in list(EVERYTHING.items())[1:]:
                function, column = text.removesuffix(")").split("(")
                assert same(got[name], reference(function, [row[column] for row in of_key])), (name, got[name])


@pytest.mark.spark
def test_results_and_types_are_those_of_spark(spark: Any) -> None:
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    random = np.random.default_rng(5)
    rows = pa.table(
        {
            "key": random.choice(["a", "b", "c"], 300).tolist(),
            "whole": pa.array(random.integers(-1000, 1000, 300), pa.int32(), mask=random.random(300) < 0.1),
            "far": pa.array(random.integers(-(2**63), 2**63 - 1, 300), mask=random.random(300) < 0.1),
            "real": pa.array(random.choice([1.5, -0.25, math.nan, 4.0], 300), mask=random.random(300) < 0.1),
            "price": pa.array([Decimal(int(n)) / 100 for n in random.integers(-9999, 9999, 300)], pa.decimal128(7, 2)),
            "word": pa.array(random.choice(["ä", "z", "Z", ""], 300), mask=random.random(300) < 0.1),
            "nothing": pa.nulls(300, pa.decimal128(36, 4)),
        }
    )
    names = rows.column_names[1:]
    numeric = [name for name in names if name != "word"]
    texts = {f"{f}_{name}": f"{f}({name})" for f in ("count", "min", "max") for name in names}
    texts |= {f"{f}_{name}": f"{f}({name})" for f in ("sum", "avg") for name in numeric}
    del texts["sum_far"]  # beyond the range of longs
    (output,) = run(Aggregate(n="count", **texts), [rows], key="key").outputs
    frame = spark.createDataFrame(rows.to_pylist(), from_arrow_schema(rows.schema))
    native = frame.groupBy("key").agg(F.expr("count(*)").alias("n"), *(F.expr(t).alias(n) for n, t in texts.items()))
    assert output.schema.types == to_arrow_schema(native.schema).types
    expected = {row["key"]: row.asDict() for row in native.collect()}
    for got in output.to_pylist():
        for name, value in expected[got["key"]].items():
            assert same(got[name], value), (name, got[name], value)


@given(seed=st.integers(0, 1000), channels=st.integers(1, 4))
@settings(max_examples=8)
def test_failures_and_moves_change_nothing(seed: int, channels: int) -> None:
    random = np.random.default_rng(seed)
    batches = [
        pa.table(
            {
                "user": random.integers(0, 20, n),
                "shop": random.choice(["x", "y"], n),
                "cents": random.integers(-9, 9, n),
            }
        )
        for n in random.integers(0, 30, 6)
    ]
    operator = Aggregate(n="count", total="sum(cents)", least="min(cents)", mean="mean(cents)")
    key = ("user", "shop")
    steps = disturbed(batches, key=key, channels=channels, seed=seed)
    rough = run(operator, steps, key=key, channels=channels, seed=seed)
    assert rough == run(operator, batches, key=key)


def test_partial_states_of_split_keys_add_up() -> None:
    operator = Aggregate(n="count", mean="mean(cents)", most="max(cents)")
    rows = pa.table({"user": ["ada", "bob", "ada", "ada"], "cents": [1, 2, None, 8]})
    bound = operator.bind(rows.schema, ("user",))
    hashes = np.array([1, 2, 1, 1])
    (whole,) = run(operator, [rows], key="user").outputs
    states, parts = [], []
    for part in (slice(0, 2), slice(2, 4)):
        state = KeyedState.open(MemoryStore(), bound.key_schema, bound.value_schema, slots=8)
        table = rows.slice(part.start, 2)
        combined, groups = bound.combine(table, group_rows(table, hashes[part], ["user"]))
        bound.update(state, groups, combined, Clock(0, 0))
        states.append(state)
        parts.append(partial_states(state, groups, [1, 2]))
    assert sorted(merge_partials(bound, parts).to_pylist(), key=str) == whole.to_pylist()
    bound.absorb(states[0], states[1].extract([1, 2]))
    untouched = groups.subset(np.zeros(len(groups), bool))
    assert merge_partials(bound, [partial_states(states[0], untouched, [1, 2])]).num_rows == 0
    groups, values = states[0].group_stored(states[0].select([1, 2]))
    assert sorted(bound.finish(groups.keys, values).to_pylist(), key=str) == whole.to_pylist()
    assert states[1].rows == 0


@pytest.mark.parametrize("kind", [pa.int64(), pa.decimal128(38, 0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_out_of_range_is_an_error(kind: pa.DataType, sign: int) -> None:
    largest = 2**63 - 1 if kind == pa.int64() else 10**38 - 1
    near = pa.table({"k": [1, 1], "v": pa.array([sign * largest, -sign], kind)})
    over = pa.table({"k": [1], "v": pa.array([sign * 3], kind)})
    operator = Aggregate(total="sum(v)")
    assert run(operator, [near], key="k").outputs[0]["total"].to_pylist() == [sign * (largest - 1)]
    with pytest.raises(RangeError, match="out of the range"):
        run(operator, [near, over], key="k")
    with pytest.raises(RangeError, match="out of the range"):
        run(operator, [pa.table({"k": [1, 1], "v": pa.array([sign * largest] * 2, kind)})], key="k")


def test_is_a_plain_value() -> None:
    schema = pa.schema({"user": pa.string(), "cents": pa.int32(), "price": pa.decimal128(5, 1)})
    operator = Aggregate(total="sum(cents)")
    assert pickle.loads(pickle.dumps(operator)) == operator == copy.deepcopy(operator)
    assert operator != Aggregate(total="sum(price)")
    bound = operator.bind(schema, ("user",))
    other = bound.bind(pa.schema({"user": pa.string(), "cents": pa.float32()}), ("user",))
    assert pickle.loads(pickle.dumps(bound)).output_schema == bound.output_schema
    assert bound.output_schema == pa.schema({"user": pa.string(), "total": pa.int64()})
    assert other.output_schema == pa.schema({"user": pa.string(), "total": pa.float64()})
    assert not hasattr(operator, "key")


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({}, ArgumentError, "nothing to aggregate"),
        ({"n": "product(cents)"}, ArgumentError, "no such aggregate"),
        ({"n": "sum"}, ArgumentError, "no such aggregate"),
        ({"n": "sum(*)"}, ArgumentError, "no such aggregate"),
        ({"n": "sum(cent)"}, ColumnError, "did you mean 'cents'"),
        ({"n": "sum(user)"}, ColumnError, "sum does not work on this type"),
        ({"n": "max(tags)"}, ColumnError, "max does not work on this type"),
        ({"user": "count"}, ArgumentError, "name of a key column"),
    ],
)
def test_mistakes_are_told_when_it_is_bound(columns: dict[str, str], error: type[Exception], message: str) -> None:
    schema = pa.schema({"user": pa.string(), "cents": pa.int32(), "tags": pa.list_(pa.string())})
    with pytest.raises(error, match=message):
        Aggregate(**columns).bind(schema, ("user",))


def test_complete_mode_yields_every_key_once_in_every_batch() -> None:
    """Whatever channel it is on, with rows or without, and whatever dies in between."""
    random = np.random.default_rng(3)
    tables = [pa.table({"key": random.integers(0, 30, rows)}) for rows in (40, 5, 0, 60, 3)]
    steps = [
        tables[0],
        MOVE(int(tables[0]["key"][0].as_py()), to=2),
        tables[1],
        ABORT(),
        tables[2],
        MOVE_SLOT(5, to=0),
        RESTART(),
        tables[3],
        ABORT(),
        tables[4],
    ]
    expected, counts = [], Counter[int]()
    for table in tables:
        counts.update(table["key"].to_pylist())
        expected.append(dict(counts))
    for seed in range(5):
        result = run(Aggregate(n="count").complete(), steps, key="key", channels=3, seed=seed)
        got = [[(row["key"], row["n"]) for row in output.to_pylist()] for output in result.outputs]
        assert [dict(rows) for rows in got] == expected
        assert [len(rows) for rows in got] == [len(rows) for rows in expected], "once"


def test_complete_mode_is_another_operator() -> None:
    operator = Aggregate(n="count").complete()
    assert repr(operator) == "Aggregate(n='count').complete()"
    assert operator != Aggregate(n="count")
    assert pickle.loads(pickle.dumps(operator)).output_mode == "complete"
    bound = operator.bind(pa.schema({"key": pa.string()}), ("key",))
    assert not bound.splittable


def test_an_expression_is_read_from_the_column_that_has_its_name() -> None:
    text = "max(`price * 1.5`)"
    rows = pa.table({"key": ["a", "a"], expression_column("price * 1.5"): [1.5, 3.0]})
    result = run(Aggregate(n=text, by="max_by(key, `price * 1.5`)"), [rows], key="key")
    assert result.outputs[0].to_pylist() == [{"key": "a", "n": 3.0, "by": "a"}]
    assert text in repr(Aggregate(n=text))
    assert expression_column("a % b") != expression_column("a %25 b")
    assert not {".", "`"} & {*expression_column("`a.b` * 1.5")}


def test_a_result_may_be_called_self() -> None:
    assert Aggregate(**{"self": "count"}).columns == {"self": "count"}
