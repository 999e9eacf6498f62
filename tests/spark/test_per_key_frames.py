"""Frames and keys, against Spark's own conversion of every key's rows by themselves."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unskew.spark.per_key import ArrowSettings
from unskew.spark.per_key.frames import Cutter, Frames, key_tuples
from unskew.versions import SPARK

TYPES = {
    "int": pa.int32(),
    "tiny": pa.int8(),
    "flag": pa.bool_(),
    "price": pa.float64(),
    "name": pa.string(),
    "raw": pa.binary(),
    "at": pa.timestamp("us", "Asia/Tokyo"),
    "plain": pa.timestamp("us"),
    "day": pa.date32(),
    "cost": pa.decimal128(10, 2),
    "tags": pa.list_(pa.int64()),
    "nested": pa.list_(pa.list_(pa.bool_())),
    "spot": pa.struct({"x": pa.int32(), "ys": pa.list_(pa.int16())}),
    "map": pa.map_(pa.string(), pa.list_(pa.int32())),
}

SEEDS = st.integers(0, 2**31)


def draw_value(rng: np.random.Generator, name: str) -> Any:
    """Return a value of a column, often null, and with nulls inside."""
    if rng.random() < 0.3:
        return None
    small = int(rng.integers(0, 4))
    inner = [None if rng.random() < 0.3 else int(rng.integers(0, 2)) for _ in range(small)]
    values: dict[str, Any] = {
        "int": small,
        "tiny": -small,
        "flag": small == 1,
        "price": small / 3 if small else float("nan"),
        "name": ["", "ada", "bób", "x"][small],
        "raw": [b"", b"\x00a", b"b", b"c"][small],
        "at": dt.datetime(1990, 5, 6) + dt.timedelta(microseconds=int(rng.integers(10**15))),
        "plain": dt.datetime(1990, 5, 6) + dt.timedelta(microseconds=int(rng.integers(10**15))),
        "day": dt.date(1500, 1, 1) + dt.timedelta(days=int(rng.integers(10**5))),
        "cost": Decimal(small) / 4,
        "tags": inner,
        "nested": [None if rng.random() < 0.2 else [each if each is None else each == 1 for each in inner]] * small,
        "spot": {"x": small or None, "ys": inner},
        "map": [("a", inner), ("b", None)][: small % 3],
    }
    return values[name]


def grouped_rows(seed: int) -> tuple[pa.RecordBatch, np.ndarray]:
    """Return rows of up to six groups, and where the groups start."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 5, rng.integers(1, 7))
    n = int(counts.sum())
    columns = [pa.array([draw_value(rng, name) for _ in range(n)], kind) for name, kind in TYPES.items()]
    # rows of a larger batch, so that offsets do not begin at 0
    batch = pa.concat_batches([pa.RecordBatch.from_arrays(columns, [*TYPES])] * 2).slice(n, n)
    return batch, np.concatenate(([0], np.cumsum(counts)))


def as_spark_does(rows: pa.RecordBatch, shown_by: ArrowSettings) -> pd.DataFrame:
    """Convert the rows of one key, which lie alone in their batch, as Spark's worker does."""
    rows = rows.take(pa.array(np.arange(rows.num_rows)))
    if SPARK < (4, 2):
        from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer

        worker = ArrowStreamPandasUDFSerializer(shown_by.timezone, False, True)
        place = () if SPARK < (4, 1) else (0,)
        columns = zip(rows.schema.names, rows.columns, strict=True)
        return pd.concat([worker.arrow_to_pandas(column, *place).rename(name) for name, column in columns], axis=1)
    from pyspark.sql.conversion import ArrowBatchTransformer

    series = ArrowBatchTransformer.to_pandas(
        rows,
        timezone=shown_by.timezone,
        struct_in_pandas="dict",
        ndarray_as_list=False,
        prefer_int_ext_dtype=shown_by.nullable_integers,
        df_for_struct=False,
    )
    return pd.concat(series, axis=1)


def same(one: Any, other: Any) -> bool:
    """Compare cells, with the types of everything in them."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same([*one.items()], [*other.items()])
    return one is other or one == other or (pd.isna(one) and pd.isna(other))


@settings(max_examples=60)
@given(SEEDS, st.booleans())
def test_frames_equal_those_that_spark_makes_key_by_key(seed: int, nullable_integers: bool) -> None:
    rows, starts = grouped_rows(seed)
    shown_by = ArrowSettings("Asia/Tokyo", nullable_integers=nullable_integers)
    frames = Frames(rows, starts, shown_by)
    for group in range(len(starts) - 1):
        [frame] = frames(group)
        expected = as_spark_does(rows.slice(starts[group], starts[group + 1] - starts[group]), shown_by)
        assert frame.dtypes.to_dict() == expected.dtypes.to_dict()
        assert frame.columns.equals(expected.columns) and frame.index.equals(expected.index)
        assert type(frame.index) is type(expected.index)
        for name in TYPES:
            assert same([*frame[name]], [*expected[name]]), name


@settings(max_examples=20)
@given(SEEDS)
def test_keys_are_the_first_values_of_spark_s_columns(seed: int) -> None:
    rows, _ = grouped_rows(seed)
    names = [name for name in TYPES if name != "map"]
    keys = pa.Table.from_batches([rows]).select(names)
    shown_by = ArrowSettings("Asia/Tokyo")
    for i, key in enumerate(key_tuples(keys, shown_by)):
        frame = as_spark_does(rows.slice(i, 1), shown_by)
        assert same(key, tuple(frame[name][0] for name in names))


def test_a_group_of_many_rows_comes_in_several_frames() -> None:
    rows = pa.record_batch({"n": [0, 1, 2, 3, 4, None, 6, 7]})
    frames = Frames(rows, np.array([0, 5, 5, 8]), ArrowSettings(rows_per_frame=2))
    shown = [[(frame["n"].tolist(), str(frame["n"].dtype)) for frame in frames(group)] for group in range(3)]
    assert shown[0] == [([0, 1], "int64"), ([2, 3], "int64"), ([4], "int64")]
    assert shown[1] == []
    assert [kind for _, kind in shown[2]] == ["float64", "int64"]


def test_frames_can_be_changed_and_no_other_key_sees_it() -> None:
    rows = pa.record_batch({"user": ["a", "a", "b", "b"], "n": [1, 2, 3, 4], "x": [0.5, 1.5, 2.5, 3.5]})
    frames = Frames(rows, np.array([0, 2, 4]), ArrowSettings())
    [first] = frames(0)
    first["n"] += 100
    first.loc[0, "x"] = -1.0
    first["new"] = "column"
    first.index.name, first.columns.name = "index", "columns"
    first.drop(columns="user", inplace=True)
    [second] = frames(1)
    pd.testing.assert_frame_equal(second, pd.DataFrame({"user": ["b", "b"], "n": [3, 4], "x": [2.5, 3.5]}))
    assert second.index.name is None and second.columns.name is None
    assert rows.column("n").to_pylist() == [1, 2, 3, 4]


def test_cut_frames_behave_like_slices() -> None:
    whole = pd.DataFrame(
        {
            "n": np.arange(9),
            "m": np.arange(9) * 2,
            "x": np.arange(9) / 2,
            "s": list("abcdefghi"),
            "t": pd.date_range("2024-01-01", periods=9, tz="UTC"),
            "k": pd.Categorical(list("aabbccaab")),
            "i": pd.array([1, None, 3] * 3, "Int64"),
        }
    )
    cut = Cutter(whole)
    for start, stop in ((0, 9), (3, 5), (4, 4), (8, 9)):
        piece, expected = cut(start, stop), whole.iloc[start:stop].reset_index(drop=True)
        pd.testing.assert_frame_equal(piece, expected)
        pd.testing.assert_frame_equal(piece.assign(z=1).query("n > 3"), expected.assign(z=1).query("n > 3"))
        pd.testing.assert_frame_equal(pd.concat([piece, piece]), pd.concat([expected, expected]))


@pytest.mark.parametrize("rows_per_frame", [1, 3, 10_000])
def test_every_row_is_shown_once(rows_per_frame: int) -> None:
    rng = np.random.default_rng(rows_per_frame)
    counts = rng.integers(0, 9, 50)
    starts = np.concatenate(([0], np.cumsum(counts)))
    values = [int(i) if rng.random() < 0.9 else None for i in range(starts[-1])]
    frames = Frames(pa.record_batch({"n": pa.array(values, pa.int64())}), starts, ArrowSettings("UTC", rows_per_frame))
    for group in range(50):
        shown = [None if pd.isna(n) else int(n) for frame in frames(group) for n in frame["n"]]
        assert shown == values[starts[group] : starts[group + 1]]
