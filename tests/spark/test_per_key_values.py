"""State values: what Spark 4.3 itself gave back for a state of this type that was updated with this value."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PySparkValueError
from pyspark.sql import Row
from pyspark.sql import types as T
from pyspark.sql.streaming.state import GroupState

from unskew.errors import ArgumentError
from unskew.spark.per_key.plain_values import PlainValues
from unskew.spark.per_key.spark_values import SparkValues
from unskew.versions import SPARK

BYTES = bytes if SPARK >= (4, 1) else bytearray  # as Spark gives them back

NOON = dt.datetime(2024, 3, 5, 6, 7, 8, 123456)
DAY = dt.date(2024, 1, 2)
PAIR = T.StructType().add("a", T.IntegerType()).add("b", T.StringType())

# each line was seen in a native query: (type, value given to GroupState.update, value that GroupState.get gave)
SEEN: list[tuple[T.DataType, Any, Any]] = [
    (T.BooleanType(), True, True),
    (T.BooleanType(), 1, None),
    (T.BooleanType(), "x", None),
    (T.IntegerType(), 5, 5),
    (T.IntegerType(), 2**40 + 7, 7),
    (T.IntegerType(), 5.0, None),
    (T.IntegerType(), True, None),
    (T.IntegerType(), "5", None),
    (T.ByteType(), 300, 44),
    (T.LongType(), 2**70, None),
    (T.LongType(), 2.5, None),
    (T.LongType(), np.int64(4), 4),
    (T.DoubleType(), 1, None),
    (T.DoubleType(), 2.5, 2.5),
    (T.DoubleType(), True, None),
    (T.DoubleType(), np.float32(0.1), 0.10000000149011612),
    (T.DoubleType(), Decimal("1.5"), None),
    (T.FloatType(), 0.1, 0.10000000149011612),
    (T.FloatType(), 3, None),
    (T.FloatType(), 1e300, float("inf")),
    (T.StringType(), "a", "a"),
    (T.StringType(), 5, "5"),
    (T.StringType(), 2.5, "2.5"),
    (T.StringType(), True, "true"),
    (T.StringType(), Decimal("1.50"), "1.50"),
    (T.StringType(), [1, "a"], "[1, a]"),
    (T.StringType(), 1e20, "1.0E20"),
    (T.StringType(), 1e-5, "1.0E-5"),
    (T.StringType(), float("nan"), "NaN"),
    (T.StringType(), 2**70, "1180591620717411303424"),
    (T.StringType(), None, None),
    (T.BinaryType(), b"ab", BYTES(b"ab")),
    (T.BinaryType(), bytearray(b"ab"), BYTES(b"ab")),
    (T.BinaryType(), "añ", BYTES(b"a\xc3\xb1")),
    (T.BinaryType(), 5, None),
    (T.DateType(), DAY, DAY),
    (T.DateType(), NOON, NOON.date()),
    (T.DateType(), pd.Timestamp(NOON), NOON.date()),
    (T.TimestampType(), NOON, NOON),
    (T.TimestampType(), pd.Timestamp(NOON), NOON),
    (T.TimestampType(), np.datetime64(NOON), NOON),
    (T.TimestampNTZType(), NOON, NOON),
    (T.TimestampNTZType(), NOON.replace(tzinfo=dt.UTC), NOON),
    (T.DecimalType(10, 2), Decimal("1.5"), Decimal("1.50")),
    (T.DecimalType(10, 2), Decimal("1.555"), Decimal("1.56")),
    (T.DecimalType(10, 2), Decimal("1.565"), Decimal("1.57")),
    (T.DecimalType(10, 2), Decimal("NaN"), None),
    (T.DecimalType(10, 2), 5, None),
    (T.DecimalType(10, 2), 1.5, None),
    (T.DecimalType(38, 18), Decimal("1.5"), Decimal("1.500000000000000000")),
    (PAIR, (1, "x"), Row(a=1, b="x")),
    (PAIR, {"b": "x", "a": 1}, Row(a=1, b="x")),
    (PAIR, Row(a=1, b="x"), Row(a=1, b="x")),
    (PAIR, Row(b="x", a=1), Row(a=None, b="1")),
    (PAIR, [1, "x"], Row(a=1, b="x")),
    (PAIR, {"b": "x"}, Row(a=None, b="x")),
    (PAIR, None, None),
    (T.StructType().add("A", T.TimestampType()).add("b", T.DateType()), (NOON, DAY), Row(A=NOON, b=DAY)),
    (T.DayTimeIntervalType(0, 3), dt.timedelta(days=1, microseconds=5), dt.timedelta(days=1, microseconds=5)),
    (T.DayTimeIntervalType(0, 3), pd.Timedelta("1 day"), dt.timedelta(days=1)),
    (T.NullType(), None, None),
]


def through_state(schema: T.StructType, value: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Give a value to Spark's `GroupState`, keep it as we do, and read it back."""
    state: Any = GroupState(None, 0, -1, "NoTimeout", False, False, False, False, False, -1, b"", schema)  # type: ignore[arg-type]
    state.update(value)
    values = SparkValues(schema)
    before, found, after = values.to_python(values.to_arrow([None, state._value, None]))
    assert before is None and after is None
    return found


@pytest.mark.parametrize(("kind", "given", "back"), SEEN, ids=lambda each: str(each)[:40])
def test_state_comes_back_as_from_spark(kind: T.DataType, given: Any, back: Any) -> None:
    found = through_state(T.StructType().add("v", kind), (given,))
    assert found == (back,) and type(found[0]) is type(back)


def test_collections_come_back_by_the_same_rules() -> None:
    """Spark 4.3 cannot keep them at all: it reads the schema of the state in lower case."""
    schema = (
        T.StructType()
        .add("numbers", T.ArrayType(T.IntegerType()))
        .add("times", T.MapType(T.StringType(), T.ArrayType(T.TimestampType())))
        .add("pairs", T.ArrayType(PAIR))
    )
    found = through_state(schema, ([1, None, 2.5], {"a": [NOON, None]}, [(1, "x"), None]))
    assert found == ([1, None, None], {"a": [NOON, None]}, [Row(a=1, b="x"), None])
    assert through_state(schema, ((1, 2), None, None)) == ([1, 2], None, None)
    assert through_state(schema, ("text", None, [])) == (None, None, [])


@pytest.mark.parametrize(
    ("kind", "given", "error"),
    [
        (T.DateType(), 5, AttributeError),
        (T.TimestampType(), 5, AttributeError),
        (T.DecimalType(4, 2), Decimal("123456.5"), pa.ArrowInvalid),
        (PAIR, 5, PySparkValueError),
        (PAIR, (1,), ValueError),
        (PAIR, (1, "x", 3), ValueError),
    ],
)
def test_what_spark_refuses_is_refused(kind: T.DataType, given: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        through_state(T.StructType().add("v", kind), (given,))


def test_no_state_and_a_state_of_nulls_are_two_things() -> None:
    values = SparkValues(T.StructType().add("a", T.LongType()).add("b", T.StringType()))
    states = [None, (None, None), (1, None), None]
    assert values.to_python(values.to_arrow(states)) == states
    assert values.to_python(values.to_arrow([])) == []
    assert values.to_python(values.to_arrow([(5, "x")] * 3)) == [(5, "x")] * 3


def test_plain_values_come_back_as_they_are() -> None:
    noon = np.datetime64("2024-03-05T06:07:08.123456")
    kind = pa.struct(
        {
            "n": pa.int64(),
            "x": pa.float64(),
            "s": pa.string(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "list": pa.list_(pa.int32()),
            "pair": pa.struct({"a": pa.int64()}),
        }
    )
    values = PlainValues(kind)
    day = np.datetime64("2024-01-02")
    states = [
        (1, 0.5, "a", noon, day, [1, None], {"a": 2}),
        None,
        (None,) * 7,
        (np.int64(3), 2, "b", None, DAY, [], None),
    ]
    found = values.to_python(values.to_arrow(states))
    assert found == [states[0], None, states[2], (3, 2.0, "b", None, day, [], None)]
    assert type(found[0][0]) is int and type(found[0][3]) is np.datetime64  # type: ignore[index]


@pytest.mark.parametrize("wrong", [(1.5,), ("x",), (True,), (2**70,)])
def test_plain_values_are_strict(wrong: tuple[Any, ...]) -> None:
    with pytest.raises(ArgumentError, match="does not fit the type int64"):
        PlainValues(pa.struct({"n": pa.int64()})).to_arrow([(1,), wrong])
