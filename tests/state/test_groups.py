"""Grouping against a dictionary, for every type of key and with hashes that collide."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.errors import ArgumentError
from unskew.state import group_rows
from unskew.state.groups import same_keys

NAN = float("nan")
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "a", "ab", None]),
    "large string": (pa.large_string(), ["", "a", "ab", None]),
    "string view": (pa.string_view(), ["", "a", "a text that does not fit in a view", None]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", None]),
    "int": (pa.int32(), [0, -1, 7, None]),
    "bool": (pa.bool_(), [True, False, None]),
    "float": (pa.float32(), [0.0, NAN, 1.5, None]),
    "double": (pa.float64(), [0.0, NAN, float("inf"), None]),
    "decimal": (pa.decimal128(20, 2), [Decimal("0.00"), Decimal("1.10"), None]),
    "date": (pa.date32(), [datetime.date(2020, 2, 29), datetime.date(1969, 1, 1), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["", "a", "ab", None]),
    "list": (pa.list_(pa.float64()), [[], [1.0], [1.0, NAN], [NAN, 1.0], [None], None]),
    "fixed list": (pa.list_(pa.int32(), 2), [[1, 2], [2, 1], [None, 1], None]),
    "struct": (
        pa.struct({"x": pa.int32(), "y": pa.list_(pa.string())}),
        [{"x": 1, "y": []}, {"x": 1, "y": ["a"]}, {"x": None, "y": None}, None],
    ),
    "list of structs": (
        pa.list_(pa.struct({"x": pa.float64()})),
        [[{"x": NAN}], [{"x": 0.0}, {"x": 1.0}], [None], None],
    ),
}


def frozen(value: Any) -> Any:
    """A value that is equal to itself, whatever it holds."""
    return repr(value)


@pytest.mark.parametrize("name", KINDS)
@given(data=st.data(), modulus=st.sampled_from([1, 2, 5]))
@settings(max_examples=30)
def test_groups_equal_a_dictionary(name: str, data: st.DataObject, modulus: int) -> None:
    kind, values = KINDS[name]
    values = pa.array(values, kind).to_pylist()
    keys = data.draw(st.lists(st.tuples(st.sampled_from(range(len(values))), st.sampled_from([1, 2])), max_size=20))
    rows = pa.table(
        {
            "key": pa.array([values[i] for i, _ in keys], kind),
            "other": pa.array([number for _, number in keys], pa.int64()),
        }
    )
    cut = data.draw(st.integers(0, len(keys)))
    rows = pa.concat_tables([rows.slice(0, cut), rows.slice(cut)])
    groups = group_rows(rows, np.array([(i + number) % modulus for i, number in keys], np.int64), ["key", "other"])
    expected: dict[tuple[str, int], list[int]] = {}
    for row, (i, number) in enumerate(keys):
        expected.setdefault((frozen(values[i]), number), []).append(row)
    distinct = zip(groups.keys["key"].to_pylist(), groups.keys["other"].to_pylist(), strict=True)
    assert [(frozen(key), number) for key, number in distinct] == list(expected)
    members = [
        groups.order[start:stop].tolist() for start, stop in zip(groups.starts[:-1], groups.starts[1:], strict=True)
    ]
    assert members == list(expected.values())
    assert groups.counts.tolist() == [len(rows) for rows in members]
    assert all((groups.group_of_row[rows] == group).all() for group, rows in enumerate(members))
    assert len(groups.hashes) == len(groups) == groups.keys.num_rows


@pytest.mark.parametrize("name", KINDS)
def test_keys_are_the_same_exactly_if_their_values_are(name: str) -> None:
    kind, values = KINDS[name]
    pairs = [(one, other) for one in values for other in values]
    left, right = (pa.table({"key": pa.array([pair[side] for pair in pairs], kind)}) for side in (0, 1))
    assert same_keys(left, right).tolist() == [frozen(one) == frozen(other) for one, other in pairs]


def test_every_row_needs_a_hash() -> None:
    with pytest.raises(ArgumentError, match="every row needs a hash"):
        group_rows(pa.table({"key": [1, 2]}), np.array([1]), ["key"])


def test_subsets_keep_hash_and_key_together() -> None:
    groups = group_rows(pa.table({"key": ["a", "b", "c"]}), np.array([3, 1, 2]), ["key"])
    chosen = groups.subset(np.array([True, False, True]))
    assert (chosen.hashes.tolist(), chosen.keys["key"].to_pylist(), len(chosen.group_of_row)) == ([3, 2], ["a", "c"], 0)
