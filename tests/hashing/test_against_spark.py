"""Our hashes next to Spark's own: 100,000 random values of every type, edges, nulls and composite keys."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from unskew.errors import KeyTypeError
from unskew.hashing import check_key_type, xxhash64

pytestmark = pytest.mark.spark

ROWS = 100_000
NULL_SHARE = 0.1


def integers(rng: np.random.Generator, bits: int) -> np.ndarray[Any, Any]:
    """Give integers of all magnitudes: a uniform draw would almost never be small."""
    dtype = np.dtype(f"int{bits}")
    drawn = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), ROWS, dtype=dtype) >> rng.integers(0, bits, ROWS)
    drawn = drawn.astype(dtype)
    drawn[:6] = np.iinfo(dtype).min, np.iinfo(dtype).max, 0, -1, 1, np.iinfo(dtype).min + 1
    return drawn


def floats(rng: np.random.Generator, bits: int) -> np.ndarray[Any, Any]:
    """Give random bit patterns: NaN with every payload, subnormals, infinities and both zeros among them."""
    patterns = rng.integers(0, 2**bits, ROWS, dtype=f"uint{bits}")
    values = patterns.view(f"float{bits}")
    edges = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1.0, -1.0]
    values[: len(edges)] = edges
    values[100:200] = rng.choice(edges, 100)
    one_of_each_payload = 0x7F800001 if bits == 32 else 0x7FF0000000000001
    patterns[200:300] = one_of_each_payload + np.arange(100, dtype=patterns.dtype)
    return values


def pieces(rng: np.random.Generator, whole: Any) -> list[Any]:
    """Cut a string or bytes into pieces of 0 to 100 units."""
    starts = rng.integers(0, len(whole) - 100, ROWS)
    lengths = rng.integers(0, 101, ROWS)
    lengths[:101] = np.arange(101)
    return [whole[start : start + length] for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)]


def texts(rng: np.random.Generator) -> list[str]:
    alphabet = "abcdefghij 0123456789\0ß\u00e9\u03c9\u0436\u4e2d\u20ac\U0001f980\U0001d54a"
    return pieces(rng, "".join(rng.choice(list(alphabet), 50_000)))


def decimals(rng: np.random.Generator, precision: int, scale: int) -> pa.Array:
    most = 10**precision - 1
    widths = rng.integers(0, most.bit_length() + 1, ROWS).tolist()
    draws = rng.bytes(ROWS * 17)
    unscaled = [int.from_bytes(draws[17 * i : 17 * i + 16], "little") % 2 ** widths[i] for i in range(ROWS)]
    unscaled = [min(value, most) * (-1 if draws[17 * i + 16] & 1 else 1) for i, value in enumerate(unscaled)]
    powers = [sign * (2**width + step) for width in range(0, 127) for sign in (1, -1) for step in (-1, 0, 1)]
    edges = [0, most, -most, *(value for value in powers if abs(value) <= most)]
    unscaled[: len(edges)] = edges
    whole = pa.array([Decimal(value) for value in unscaled], pa.decimal128(precision, 0))
    return pa.Array.from_buffers(pa.decimal128(precision, scale), ROWS, whole.buffers())


def all_types() -> pa.Table:
    rng = np.random.default_rng(20)
    micros = integers(rng, 64) // 8
    nanos = integers(rng, 64)
    days = integers(rng, 32) // 1024
    strings = texts(rng)
    blobs = pieces(rng, rng.bytes(50_000))
    words = pa.array(strings[:50])
    plain: dict[str, pa.Array] = {
        "boolean": pa.array(rng.random(ROWS) < 0.5),
        **{f"int{bits}": pa.array(integers(rng, bits)) for bits in (8, 16, 32, 64)},
        **{f"float{bits}": pa.array(floats(rng, bits)) for bits in (32, 64)},
        "string": pa.array(strings),
        "large_string": pa.array(strings, pa.large_string()),
        "binary": pa.array(blobs),
        "large_binary": pa.array(blobs, pa.large_binary()),
        "fixed_size_binary": pa.array([(blob + bytes(13))[:13] for blob in blobs], pa.binary(13)),
        "date32": pa.array(days, pa.date32()),
        "timestamp_us": pa.array(micros, pa.timestamp("us")),
        "timestamp_us_zone": pa.array(micros, pa.timestamp("us", "UTC")),
        "timestamp_s": pa.array(micros // 1_000_000, pa.timestamp("s")),
        "timestamp_ms_zone": pa.array(micros // 1_000, pa.timestamp("ms", "Europe/Paris")),
        "timestamp_ns": pa.array(nanos // 4, pa.timestamp("ns")),
        "duration_us": pa.array(micros, pa.duration("us")),
        "duration_s": pa.array(micros // 1_000_000, pa.duration("s")),
        "duration_ns": pa.array(nanos // 4_000 * 1_000, pa.duration("ns")),
        "time64_us": pa.array(rng.integers(0, 86_400 * 10**6, ROWS), pa.time64("us")),
        "time64_ns": pa.array(rng.integers(0, 86_400 * 10**9, ROWS), pa.time64("ns")),
        "decimal_9_2": decimals(rng, 9, 2),
        "decimal_18_18": decimals(rng, 18, 18),
        "decimal_19_0": decimals(rng, 19, 0),
        "decimal_38_10": decimals(rng, 38, 10),
        "dictionary": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 50, ROWS), pa.int8()), words),
        "list_int64": random_lists(rng, pa.array(integers(rng, 64))),
        "list_string": random_lists(rng, pa.array(strings)),
    }
    columns = {name: with_nulls(rng, column) for name, column in plain.items()}
    both = [columns["string"], columns["float64"]]
    mask = pa.array(rng.random(ROWS) < NULL_SHARE)
    columns["struct"] = pa.StructArray.from_arrays(both, ["text", "number"], mask=mask)
    columns["list_struct"] = random_lists(rng, columns["struct"])
    columns["null"] = pa.nulls(ROWS)
    return pa.table(columns)


def with_nulls(rng: np.random.Generator, column: pa.Array) -> pa.Array:
    return column.take(pa.array(np.arange(ROWS), mask=rng.random(ROWS) < NULL_SHARE))


def random_lists(rng: np.random.Generator, elements: pa.Array) -> pa.Array:
    """Cut `elements` into lists of 0 to 3; some at the end stay unused."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, 4, ROWS) * (rng.random(ROWS) < 0.5))])
    assert offsets[-1] <= len(elements)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), elements)


ROWS_OF_ALL_TYPES = all_types()
COMPOSITES = [
    ["int64", "string"],
    ["string", "int32", "boolean"],
    ["dictionary", "dictionary"],
    ["null", "dictionary", "decimal_38_10", "date32", "float64", "struct", "list_string"],
    ROWS_OF_ALL_TYPES.column_names,
]


@pytest.fixture(scope="module")
def spark_hashes(spark: Any) -> pa.Table:
    """Give Spark's hashes of every column and composite key, in one job; named by the key."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_schema

    # without the schema, timestamps without a zone would be taken as local time
    frame = spark.createDataFrame(ROWS_OF_ALL_TYPES, from_arrow_schema(ROWS_OF_ALL_TYPES.schema))
    keys = [[name] for name in ROWS_OF_ALL_TYPES.column_names] + COMPOSITES
    return frame.select(*(functions.xxhash64(*key).alias(str(key)) for key in keys)).toArrow()


@pytest.mark.parametrize("name", ROWS_OF_ALL_TYPES.column_names)
def test_every_type_hashes_as_in_spark(spark_hashes: pa.Table, name: str) -> None:
    ours = xxhash64([ROWS_OF_ALL_TYPES[name]])
    theirs = spark_hashes[str([name])].to_numpy()
    different = np.flatnonzero(ours != theirs)
    assert ours.size >= 100_000
    assert different.size == 0, ROWS_OF_ALL_TYPES[name].take(different[:5])


@pytest.mark.parametrize("key", COMPOSITES, ids=lambda key: "-".join(key)[:60])
def test_composite_keys_hash_as_in_spark(spark_hashes: pa.Table, key: list[str]) -> None:
    ours = xxhash64([ROWS_OF_ALL_TYPES[name] for name in key], names=key)
    np.testing.assert_array_equal(ours, spark_hashes[str(key)].to_numpy())


@pytest.mark.parametrize("type_name", ["float", "double"])
def test_both_zeros_and_every_nan_are_one_group_in_spark_too(spark: Any, type_name: str) -> None:
    values = "values (0.0), (-0.0), (double('NaN')), (-double('NaN')) as numbers(x)"
    groups = spark.sql(f"select count(*) from {values} group by cast(x as {type_name})")
    assert sorted(row[0] for row in groups.collect()) == [2, 2]


@pytest.mark.parametrize(
    "expression",
    [
        "'a' collate UTF8_LCASE",
        "named_struct('name', 'a' collate UNICODE_CI)",
        "array('a' collate UTF8_BINARY_RTRIM)",
        "map(1, 2)",
        "array(map('a', 1))",
        "parse_json('1')",
        "null",
        "make_interval(1, 2)",
        "interval '3-2' year to month",
    ],
)
def test_types_that_cannot_be_keys_are_refused_by_their_spark_name(spark: Any, expression: str) -> None:
    field = spark.sql(f"select {expression} as place").schema[0]
    with pytest.raises(KeyTypeError, match=r"column 'place'.*Hint: "):
        check_key_type(field.name, field.dataType.simpleString())


@pytest.mark.parametrize(
    "expression",
    [
        "'a'",
        "named_struct('variant', 1, 'map', 'a', 'interval', array(1.5), 'void', date'2020-01-01')",
        "interval '3' day",
        "timestamp_ntz'2020-01-01'",
        "decimal(3)",
        "binary('a')",
    ],
)
def test_types_that_can_be_keys_pass_by_their_spark_name(spark: Any, expression: str) -> None:
    field = spark.sql(f"select {expression} as place").schema[0]
    check_key_type(field.name, field.dataType.simpleString())
