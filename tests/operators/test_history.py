"""Statistics over the last rows of a key, against a plain computation and Spark's windows."""

from __future__ import annotations

import math
import pickle
import statistics
from collections import defaultdict, deque
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError, ColumnError, RangeError
from unskew.operators import History
from unskew.testing import check_operator, run

SCHEMA = pa.schema(
    {"key": pa.string(), "id": pa.int64(), "whole": pa.int32(), "real": pa.float64(), "word": pa.string()}
)
ROW = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["a", "b", None]),
        "whole": st.none() | st.integers(-9, 9),
        "real": st.none() | st.sampled_from([0.5, -2.25, 1e6, math.inf, math.nan]),
        "word": st.none() | st.text(max_size=2),
    }
)
EVERYTHING = {
    **{f"{function}_whole": f"{function}(whole)" for function in ("count", "sum", "mean", "variance", "median")},
    **{f"{function}_real": f"{function}(real)" for function in ("count", "sum", "stddev", "median")},
    **{f"{function}_{name}": f"{function}({name})" for name in ("real", "word") for function in ("min", "max")},
    **{f"{function}_word": f"{function}(word)" for function in ("count", "first", "last")},
}


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def reference(function: str, window: list[Any]) -> Any:
    """What SQL says a window function gives."""
    if function in ("first", "last"):
        return window[0 if function == "first" else -1]
    values = sorted((value for value in window if value is not None), key=lambda value: (is_nan(value), value))
    if function == "count":
        return len(values)
    if not values or (function in ("variance", "stddev") and len(values) < 2):
        return None
    if function in ("min", "max"):
        return values[0 if function == "min" else -1]
    if function == "median":
        return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2
    if function == "sum":
        return sum(values)
    if function == "mean":
        return sum(values) / len(values)
    if any(map(math.isinf, values)) or any(map(is_nan, values)):
        return math.nan
    variance = float(statistics.variance(values))
    return variance if function == "variance" else math.sqrt(variance)


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (is_nan(left) and is_nan(right)) or math.isclose(left, right, rel_tol=1e-9)
    return type(left) is type(right) and left == right


@given(batches=st.lists(st.lists(ROW, max_size=9), min_size=1, max_size=4), length=st.integers(1, 4))
@settings(max_examples=15)
def test_equals_a_plain_computation(batches: list[list[dict[str, Any]]], length: int) -> None:
    for number, row in enumerate(row for rows in batches for row in rows):
        row["id"] = number
    tables = [pa.Table.from_pylist(rows, SCHEMA) for rows in batches]
    result = run(History(length, **EVERYTHING), tables, key="key")
    last: dict[Any, deque[dict[str, Any]]] = defaultdict(lambda: deque(maxlen=length))
    for rows, output in zip(batches, result.outputs, strict=True):
        got = {row["id"]: row for row in output.to_pylist()}
        assert len(got) == len(rows) == output.num_rows
        for row in rows:
            last[row["key"]].append(row)
            for name, text in EVERYTHING.items():
                function, column = text.removesuffix(")").split("(")
                expected = reference(function, [earlier[column] for earlier in last[row["key"]]])
                assert same(got[row["id"]][name], expected), (name, got[row["id"]], expected)
    held = {row["key.key"]: row["value.whole"] for row in result.state.to_pylist()}
    assert held == {key: [row["whole"] for row in rows] for key, rows in last.items()}


def drifting(seed: int, batches: int = 4, rows: int = 40) -> list[pa.Table]:
    random = np.random.default_rng(seed)
    tables = []
    for batch in range(batches):
        user = (random.zipf(1.5, rows) + 3 * batch) % 11
        value = pa.array(random.integers(-50, 50, rows), mask=random.random(rows) < 0.1)
        tables.append(pa.table({"user": pa.array(user, mask=user == 4), "value": value}))
    return tables


def test_has_the_properties_of_an_operator() -> None:
    operator = History(5, mean="mean(value)", least="min(value)", middle="median(value)", spread="stddev(value)")
    check_operator(operator, drifting(3), key="user", seeds=2, tolerance=0.0)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: History(0, n="count(x)"), ArgumentError, "at least one row"),
        (lambda: History(3), ArgumentError, "no statistic"),
        (lambda: History(3, n="count"), ArgumentError, "not a statistic"),
        (lambda: History(3, n="mode(x)"), ArgumentError, "not a statistic"),
        (lambda: run(History(3, n="sum(y)"), [pa.table({"k": [1], "x": [1]})], key="k"), ColumnError, "no column"),
        (lambda: run(History(3, n="sum(x)"), [pa.table({"k": [1], "x": ["a"]})], key="k"), ColumnError, "on numbers"),
        (
            lambda: run(History(3, x="sum(x)"), [pa.table({"k": [1], "x": [1]})], key="k"),
            ArgumentError,
            "name of a col",
        ),
        (
            lambda: run(History(2, n="sum(x)"), [pa.table({"k": [1, 1], "x": [2**62] * 2})], key="k"),
            RangeError,
            "range",
        ),
    ],
)
def test_what_cannot_work_is_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make()


def test_is_a_plain_value() -> None:
    operator = History(3, mean="mean(price)")
    assert repr(operator) == "History(3, mean='mean(price)')"
    assert pickle.loads(pickle.dumps(operator)) == operator != History(4, mean="mean(price)")
