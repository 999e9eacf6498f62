"""Sizes of rows against the sizes that Arrow says whole tables have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from unskew.state.sizes import row_bytes

CASES: list[tuple[pa.DataType, list[Any], list[int]]] = [
    (pa.int32(), [1, None, 3], [4, 4, 4]),
    (pa.decimal128(10, 2), [None, None], [16, 16]),
    (pa.bool_(), [True, None], [1, 1]),
    (pa.null(), [None, None], [0, 0]),
    (pa.string(), ["", "abc", None], [4, 7, 4]),
    (pa.large_binary(), [b"ab", b""], [10, 8]),
    (pa.list_(pa.int64()), [[1, 2], [], None, [3]], [20, 4, 4, 12]),
    (pa.list_(pa.string()), [["a", "bc"], []], [15, 4]),
    (pa.list_(pa.int16(), 2), [[1, 2], [3, 4]], [8, 8]),
    (pa.struct({"x": pa.int64(), "y": pa.string()}), [{"x": 1, "y": "ab"}, None], [14, 12]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("bc", 2)], []], [31, 4]),
]


@pytest.mark.parametrize(("kind", "values", "expected"), CASES, ids=[str(case[0]) for case in CASES])
def test_rows_have_the_size_of_their_values_and_offsets(
    kind: pa.DataType, values: list[Any], expected: list[int]
) -> None:
    array = pa.array(values, kind)
    assert row_bytes(pa.record_batch({"x": array})).tolist() == expected
    # a slice knows only its own rows
    assert row_bytes(pa.record_batch({"x": array.slice(1)})).tolist() == expected[1:]
