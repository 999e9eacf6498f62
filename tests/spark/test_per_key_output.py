"""Output of per-key functions: frames against Spark's own way of joining them, and rows."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, PySparkRuntimeError, PySparkTypeError
from pyspark.sql import types as T

from unskew.errors import ArgumentError
from unskew.spark.per_key import ArrowSettings
from unskew.spark.per_key.frame_output import FrameOutput
from unskew.spark.per_key.rows import RowOutput
from unskew.versions import SPARK
from unskew.versions.arrow import to_arrow_schema

ZONE = "America/New_York"
SCHEMA = (
    T.StructType()
    .add("user", T.StringType())
    .add("n", T.IntegerType())
    .add("x", T.DoubleType())
    .add("at", T.TimestampType())
    .add("tags", T.ArrayType(T.LongType()))
    .add("spot", T.StructType().add("a", T.LongType()).add("b", T.StringType()), nullable=False)
)


def as_spark_does(frames: list[pd.DataFrame], schema: T.StructType) -> pa.RecordBatch:
    """Join frames as Spark's worker does, without its padding."""
    joined = pd.concat(frames, ignore_index=True)
    if SPARK < (4, 2):
        from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer
        from pyspark.sql.pandas.types import to_arrow_type

        worker = ArrowStreamPandasUDFSerializer(ZONE, False, True, arrow_cast=SPARK >= (4, 1))
        rows = worker._create_struct_array(joined, to_arrow_type(schema))
        return pa.RecordBatch.from_struct_array(rows).cast(to_arrow_schema(schema, timezone=ZONE))
    from pyspark.sql.conversion import PandasToArrowConversion

    return PandasToArrowConversion.convert(
        joined, schema, timezone=ZONE, safecheck=False, arrow_cast=True, assign_cols_by_name=True
    )


def frame(rows: int, seed: int, **changes: Any) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    columns = {
        "user": [f"u{seed}"] * rows,
        "n": rng.integers(0, 9, rows),
        "x": rng.random(rows),
        "at": pd.Timestamp("2024-03-10 03:30") + pd.to_timedelta(rng.integers(0, 9, rows), "h"),
        "tags": [[1, 2]] * rows,
        "spot": [(1, "s")] * rows,
    }
    return pd.DataFrame({**columns, **changes})


def test_frames_are_joined_as_spark_joins_them() -> None:
    frames = [
        frame(1, 0),
        frame(2, 1, n=[1.0, np.nan]),
        frame(1, 2)[["tags", "n", "spot", "at", "x", "user"]],
        frame(3, 3, user=["a", None, "b"], n=[None, 2, 3], tags=[None, [], [5]]),
        frame(1, 4, x=[7], spot=[{"b": "t", "a": 3}]),
        frame(2, 5, at=pd.array(["2024-07-01", None], "datetime64[ns]"), n=pd.array([1, None], "Int64")),
        frame(1, 6, at=pd.to_datetime(["2024-07-01 12:00"], utc=True)),
        frame(1, 7, user=pd.Categorical(["c"])),
    ]
    output = FrameOutput(SCHEMA, ArrowSettings(ZONE))
    output.take([], owner=0)
    output.take(frames[:3], owner=1)
    output.take(iter([pd.DataFrame(), *frames[3:], SCHEMA_LESS]), owner=2)
    table = output.to_arrow()
    expected = pa.Table.from_batches([as_spark_does([each], SCHEMA) for each in frames])
    assert table.to_pydict() == expected.to_pydict()
    assert table.schema.types == expected.schema.types and table.schema.names == expected.schema.names
    alike = [frame(i % 3, i) for i in range(1, 40)]
    output = FrameOutput(SCHEMA, ArrowSettings(ZONE))
    output.take(alike, owner=0)
    together = as_spark_does([each for each in alike if len(each)], SCHEMA)
    assert output.to_arrow().to_pydict() == together.to_pydict()


SCHEMA_LESS = pd.DataFrame(columns=[*"abcdef"])


def test_no_frames_are_an_empty_table() -> None:
    output = FrameOutput(SCHEMA, ArrowSettings(ZONE))
    table = output.to_arrow()
    assert table.num_rows == 0 and table.schema.field("at").type == pa.timestamp("us", ZONE)


def test_columns_without_names_are_taken_by_position() -> None:
    schema = T.StructType().add("user", T.StringType()).add("n", T.LongType())
    output = FrameOutput(schema, ArrowSettings())
    output.take([pd.DataFrame([["ada", 1]])], owner=0)
    by_position = FrameOutput(schema, ArrowSettings(columns_by_name=False))
    by_position.take([pd.DataFrame({"n": ["ada"], "user": [1]})], owner=0)
    assert output.to_arrow().to_pydict() == by_position.to_arrow().to_pydict() == {"user": ["ada"], "n": [1]}


@pytest.mark.parametrize(
    ("result", "error", "message"),
    [
        (pd.DataFrame({"user": ["a"], "n": [1]}), PySparkTypeError, "should be iterable of pandas.DataFrame"),
        (5, PySparkTypeError, "should be iterable, but is int"),
        ([{"user": "a"}], PySparkTypeError, "should be iterator of pandas.DataFrame, but is dict"),
        ([pd.DataFrame({"user": ["a"]})], PySparkRuntimeError, "Expected: 2 Actual: 1"),
        ([pd.DataFrame({"user": ["a"], "n": [1], "m": [2]})], PySparkRuntimeError, "Expected: 2 Actual: 3"),
        ([pd.DataFrame(index=[0])], PySparkRuntimeError, "Expected: 2 Actual: 0"),
        ([pd.DataFrame({"user": ["a"], "m": [1]})], PySparkRuntimeError, r"Missing: n\. Unexpected: m\."),
    ],
)
def test_results_that_spark_refuses(result: Any, error: type[Exception], message: str) -> None:
    schema = T.StructType().add("user", T.StringType()).add("n", T.LongType())
    with pytest.raises(error, match=message):
        FrameOutput(schema, ArrowSettings()).take(result, owner=0)


def test_values_that_do_not_fit_tell_whose_they_are() -> None:
    schema = T.StructType().add("user", T.StringType()).add("n", T.LongType())
    output = FrameOutput(schema, ArrowSettings(), lambda owner: f"of owner {owner}")
    for owner, n in enumerate([1, "two", "three"]):
        output.take([pd.DataFrame({"user": ["a"], "n": pd.Series([n], dtype=object)})], owner)
    with pytest.raises(PySparkException) as failure:
        output.to_arrow()
    assert failure.value.__notes__ == ["of owner 1"]


PLAIN = pa.schema({"user": pa.string(), "n": pa.int64(), "at": pa.timestamp("us", "UTC"), "cost": pa.decimal128(6, 2)})


def test_rows_and_columns_keep_their_order() -> None:
    output = RowOutput(PLAIN)
    noon = np.datetime64("2024-01-01T12:00:00")
    output.take(("ada", 1, noon, Decimal("1.5")), owner=0)
    output.take(None, owner=1)
    output.take([("bob", np.int64(2), None, None), ("bob", 3.0, dt.datetime(2024, 1, 1, 12), None)], owner=2)
    output.take({"user": "cy", "n": np.arange(2), "at": np.array([noon, "NaT"]), "cost": None}, owner=3)
    output.take({"user": "dora", "n": 7, "at": noon, "cost": Decimal(2)}, owner=3)
    output.take([], owner=4)
    table = output.to_arrow()
    assert table.column("user").to_pylist() == ["ada", "bob", "bob", "cy", "cy", "dora"]
    assert table.column("n").to_pylist() == [1, 2, 3, 0, 1, 7]
    at = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    assert [each and each.astimezone(dt.UTC) for each in table.column("at").to_pylist()] == [at, None, at, at, None, at]
    assert table.schema == PLAIN


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("text", "a function cannot return this as output, got 'str'"),
        (("ada", 1), "a row of the output is a tuple of 4 values"),
        ([["ada", 1, None, None]], "a row of the output is a tuple"),
        ({"user": "ada"}, "the output has other columns than its schema, got"),
        ({"user": ["a", "b"], "n": [1], "at": None, "cost": None}, "differ in length"),
    ],
)
def test_output_of_another_form_is_refused(output: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        RowOutput(PLAIN).take(output, owner=0)


@pytest.mark.parametrize("wrong", [1.5, "x", 2**70, True])
def test_a_row_that_does_not_fit_tells_whose_it_is(wrong: Any) -> None:
    output = RowOutput(PLAIN, lambda owner: f"of owner {owner}")
    for owner, n in enumerate([1, wrong, wrong]):
        output.take(("a", n, None, None), owner)
    with pytest.raises(ArgumentError, match="does not fit the type int64") as failure:
        output.to_arrow()
    assert failure.value.__notes__ == ["of owner 1"]
