"""Keys of every type, with nulls and odd values: the groups that Spark makes of the same rows."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import unskew
from unskew.errors import KeyTypeError
from unskew.operators import Aggregate
from unskew.testing import run, write_batches

UTC = dt.UTC
NAN, INF = math.nan, math.inf
LONG = "x" * 1_000_000

KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tinyint": (pa.int8(), [-128, 0, 127, None, 0]),
    "smallint": (pa.int16(), [-(2**15), 0, 2**15 - 1, None]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1, None]),
    "bigint": (pa.int64(), [-(2**63), 0, 2**63 - 1, None]),
    "float": (pa.float32(), [NAN, -NAN, 0.0, -0.0, INF, -INF, None, 1e-45]),
    "double": (pa.float64(), [NAN, -NAN, 0.0, -0.0, INF, -INF, None, 5e-324]),
    "decimal": (pa.decimal128(5, 2), [Decimal("1.10"), Decimal("-0.00"), Decimal("0.00"), None]),
    "wide decimal": (pa.decimal128(38, 18), [Decimal("12345678901234567890.123456789012345678"), Decimal(-1), None]),
    "date": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1970, 1, 1), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [*(dt.datetime(year, 1, 1, tzinfo=UTC) for year in (1900, 2024)), None]),
    "timestamp_ntz": (pa.timestamp("us"), [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    "binary": (pa.binary(), [b"", b"\0", b"\xff\xfe", None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "string": (pa.string(), ["", " ", "\0", "a'b", "\u00e9", "e\u0301", "\U0001f642", None, LONG]),
    "struct": (pa.struct({"a": pa.int32(), "b": pa.string()}), [{"a": 1, "b": "x"}, {}, None, {"a": 1, "b": ""}]),
    "array": (pa.list_(pa.float64()), [[], [0.0], [-0.0], [NAN], [None], None, [NAN, NAN]]),
    "nested": (pa.struct({"a.b": pa.list_(pa.string())}), [{"a.b": ["x"]}, {"a.b": []}, {"a.b": None}, None]),
    "interval": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=-1), None]),
}
ROWS = 60


def table() -> pa.Table:
    """Return rows in which every column takes all its values in turn."""
    columns = {
        name: pa.array([values[i % len(values)] for i in range(ROWS)], kind) for name, (kind, values) in KEYS.items()
    }
    return pa.table(columns)


def plain(value: Any) -> Any:
    """Return a value such that equal keys are equal: one NaN, one zero, and long text by its length."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(map(plain, value.values()))
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return bytes(value) if isinstance(value, (bytes, bytearray)) else value


@pytest.mark.spark
def test_each_type_alone_gives_the_groups_of_spark(spark: Any) -> None:
    """All types in one job of Spark's, with grouping sets; each alone in the test kit, with a restart and a move."""
    names = list(KEYS)
    spark.createDataFrame(table().drop_columns(["timestamp_ntz", "timestamp"])).createOrReplaceTempView("hostile_keys")
    sets = [name for name in names if not name.startswith("timestamp")]
    spelled = ", ".join(f"(`{name}`)" for name in sets)
    columns = ", ".join(f"`{name}`" for name in sets)
    flags = ", ".join(f"grouping(`{name}`)" for name in sets)
    query = f"SELECT {columns}, {flags}, count(*) FROM hostile_keys GROUP BY GROUPING SETS ({spelled})"
    native: dict[str, Counter[Any]] = {name: Counter() for name in sets}
    for row in spark.sql(query).collect():
        place = list(row[len(sets) : 2 * len(sets)]).index(0)
        native[sets[place]][plain(row[place])] += row[-1]
    rows = table()
    for name in names:
        one = rows.select([name])
        result = run(Aggregate(n="count"), [one.slice(0, 25), one.slice(25)], key=name, channels=3)
        ours = {plain(row[f"key.{name}"]): row["value.n"] for row in result.state.to_pylist()}
        expected = native.get(name) or Counter(plain(value) for value in one.column(0).to_pylist())
        assert ours == expected, name


@pytest.mark.spark
@pytest.mark.slow
def test_all_types_together_on_spark(spark: Any, tmp_path: Path) -> None:
    rows = table().drop_columns(["interval", "nested"])  # Parquet has no such types, or Spark no such names
    folder = write_batches(tmp_path / "rows", [rows.slice(0, 35), rows.slice(0, 0), rows.slice(35)])
    static = spark.read.parquet(folder)
    events = spark.readStream.schema(static.schema).option("maxFilesPerTrigger", 1).parquet(folder)
    found: dict[Any, int] = {}

    def keep(batch: Any, _: int) -> None:
        found.update({tuple(map(plain, row[:-1])): row[-1] for row in batch.collect()})

    writer = unskew.balance(events, rows.column_names, channels=2, plan="own", min_gain=-1.0).count().writeStream
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).foreachBatch(keep)
    query.trigger(availableNow=True).start().awaitTermination()
    native = static.groupBy(*[F.col(f"`{name}`") for name in rows.column_names]).count().collect()
    assert found == {tuple(map(plain, row[:-1])): row[-1] for row in native}
    state = unskew.read_state(spark, str(tmp_path / "checkpoint"))
    assert state.count() == len(native)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("column", "word"),
    [
        ("map('a', 1)", "map"),
        ("array(map('a', 1))", "map"),
        ("parse_json('1')", "variant"),
        ("interval '1-2' year to month", "interval year to month"),
        ("null", "void"),
        ("'a' COLLATE UTF8_LCASE", "collated"),
    ],
)
def test_types_that_are_refused_say_so_with_a_hint(spark: Any, column: str, word: str) -> None:
    rows = spark.readStream.format("rate").load().selectExpr(f"{column} AS k")
    with pytest.raises(KeyTypeError, match=rf"{word}.*column 'k'.*Hint"):
        unskew.balance(rows, "k")


@pytest.mark.spark
def test_a_stream_that_never_has_a_row(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    events = spark.readStream.schema("user string, ts timestamp").parquet(str(tmp_path / "rows"))
    seen: list[int] = []
    windows = unskew.balance(events.withWatermark("ts", "1 minute"), "user", F.window("ts", "1 minute")).count()
    writer = windows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    query = writer.foreachBatch(lambda rows, _: seen.append(rows.count())).start()
    assert query.awaitTermination(120)
    assert sum(seen) == 0 and query.exception() is None
    assert "stopped" in repr(query) and sum(query.loads["rows"].to_pylist()) == 0
