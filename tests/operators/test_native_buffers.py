"""What Spark keeps for an aggregate, as our state: the forms that a small stream does not show."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import ColumnError, RangeError
from unskew.operators import Aggregate
from unskew.operators.native_buffers import BUFFERS


def bound(kind: pa.DataType, nullable: bool = True, **aggregates: str) -> Aggregate:
    schema = pa.schema([pa.field("user", pa.string()), pa.field("x", kind, nullable)])
    return Aggregate(**aggregates).bind(schema, ("user",))


def finished(aggregate: Aggregate, buffers: dict[str, pa.Array]) -> list[dict[str, object]]:
    """Return the results of keys with these buffers."""
    struct = pa.StructArray.from_arrays([*buffers.values()], [*buffers])
    table = pa.table({"user": [str(n) for n in range(len(struct))], BUFFERS: struct})
    assert aggregate.state_columns(table.schema) == (BUFFERS,)
    values, known = aggregate.taken_over(table)
    assert known.all()
    return aggregate.finish(table.select(["user"]), values).drop_columns("user").to_pylist()


def test_small_decimals_are_whole_numbers_in_sparks_buffers() -> None:
    aggregate = bound(pa.decimal128(7, 2), total="sum(x)", mean="mean(x)")
    total, mean = pa.array([-1250, None, 7]), pa.array([-1250.0, 0.0, 7.0])
    rows = finished(aggregate, {"sum_0": total, "sum_1": mean, "count_2": pa.array([2, 0, 1])})
    assert rows[0] == {"total": Decimal("-12.50"), "mean": Decimal("-6.250000")}
    assert rows[1] == {"total": None, "mean": None}
    assert rows[2] == {"total": Decimal("0.07"), "mean": Decimal("0.070000")}


def test_a_sum_of_no_decimal_is_null_and_one_that_overflowed_is_refused() -> None:
    aggregate = bound(pa.decimal128(20, 0), total="sum(x)")
    total = pa.array([Decimal(5), Decimal(0), None], pa.decimal128(30, 0))
    empty = {"sum_0": total[:2], "isEmpty_1": pa.array([False, True])}
    assert [row["total"] for row in finished(aggregate, empty)] == [Decimal(5), None]
    with pytest.raises(RangeError, match="overflowed"):
        finished(aggregate, {"sum_0": total, "isEmpty_1": pa.array([False, True, False])})


def test_a_mean_that_spark_has_rounded_is_refused() -> None:
    aggregate = bound(pa.decimal128(11, 2), mean="mean(x)")
    with pytest.raises(RangeError, match="Spark has rounded the sum"):
        finished(aggregate, {"sum_0": pa.array([2.0**53]), "count_1": pa.array([3])})


def test_rows_and_values_that_are_never_null_share_a_count() -> None:
    one = {"count_0": pa.array([4])}
    assert finished(bound(pa.int64(), False, rows="count", values="count(x)"), one) == [{"rows": 4, "values": 4}]
    both = one | {"count_1": pa.array([3])}
    assert finished(bound(pa.int64(), True, rows="count", values="count(x)"), both) == [{"rows": 4, "values": 3}]


@pytest.mark.parametrize(
    ("aggregates", "buffers", "says"),
    [
        ({"a": "min(x)"}, {"max_0": pa.array([1])}, "these are not the aggregates"),
        ({"a": "sum(x)"}, {"sum_0": pa.array([1.5])}, "the same aggregates in the same order"),
        ({"a": "sum(x)"}, {"sum_0": pa.array([1]), "sum_1": pa.array([1])}, "these are not the aggregates"),
        ({"a": "median(x)"}, {"buf_0": pa.array([b""])}, "cannot be taken over, got 'a'"),
    ],
)
def test_other_aggregates_are_refused(aggregates: dict[str, str], buffers: dict[str, pa.Array], says: str) -> None:
    with pytest.raises(ColumnError, match=says):
        finished(bound(pa.int64(), **aggregates), buffers)


def test_registers_of_an_approximate_count() -> None:
    aggregate = bound(pa.int64(), kinds="approx_count_distinct(x)")
    words = np.zeros((2, 52), np.int64)
    words[0, 0] = 5 | 2 << 54  # registers 0 and 9
    words[0, 51] = 3 << 6  # register 511
    values, _ = aggregate.taken_over(
        pa.table(
            {
                "user": ["a", "b"],
                BUFFERS: pa.StructArray.from_arrays([*map(pa.array, words.T)], [f"MS[{n}]_{n}" for n in range(52)]),
            }
        )
    )
    assert values["kinds"].to_pylist() == [[0 << 6 | 5, 9 << 6 | 2, 511 << 6 | 3], []]
