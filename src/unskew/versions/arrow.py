"""Spark's conversions between its own types, Arrow and pandas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow import types
from pyspark.sql.conversion import ArrowTableToRowsConversion
from pyspark.sql.pandas import types as pandas_types
from pyspark.sql.types import StructType

from unskew.versions import SPARK

# Arrow: since 4.2 timestamps have the zone of the session in Python, before they have UTC.
ZONES = SPARK >= (4, 2)

# pandas: before 4.2 each field of a struct is converted as a column, so a null among integers makes floats of them.
FIELDS_AS_COLUMNS = SPARK < (4, 2)


def to_arrow_schema(schema: StructType, *, timezone: str | None = None) -> pa.Schema:
    """Return the Arrow schema of rows; timestamps have a zone."""
    if ZONES:
        return pandas_types.to_arrow_schema(schema, timezone=timezone)
    fields = pandas_types.to_arrow_schema(schema)
    return pa.schema([field.with_type(_in_zone(field.type, timezone)) for field in fields])


def from_arrow_schema(schema: pa.Schema) -> StructType:
    """Return the Spark schema of Arrow rows; timestamps without a zone stay so, which older versions must be told."""
    return pandas_types.from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _in_zone(kind: pa.DataType, zone: str | None) -> pa.DataType:
    """Return a type whose timestamps with a zone have this one."""
    if types.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone) if kind.tz else kind
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_zone(kind.value_type, zone)))
    if types.is_map(kind):
        return pa.map_(
            kind.key_field.with_type(_in_zone(kind.key_type, zone)),
            kind.item_field.with_type(_in_zone(kind.item_type, zone)),
        )
    if types.is_struct(kind):
        return pa.struct([field.with_type(_in_zone(field.type, zone)) for field in kind])
    return kind


# Conversions between Arrow and pandas: classes of their own since 4.2, parts of serializers before.
if ZONES:
    from pyspark.sql.conversion import ArrowBatchTransformer, PandasToArrowConversion
else:
    from pyspark.sql.pandas.serializers import ArrowStreamPandasUDFSerializer  # type: ignore[attr-defined]


def arrow_to_pandas(rows: pa.RecordBatch, timezone: str, nullable_integers: bool) -> list[pd.Series[Any]]:
    """Return columns as Spark shows them to a pandas function. Before 4.2 there are no nullable integers."""
    if ZONES:
        return ArrowBatchTransformer.to_pandas(  # type: ignore[return-value]
            rows, timezone=timezone, prefer_int_ext_dtype=nullable_integers
        )
    convert, place = _serializer(timezone, safe=False).arrow_to_pandas, () if SPARK < (4, 1) else (0,)
    return [convert(column, *place).rename(name) for name, column in zip(rows.schema.names, rows.columns, strict=True)]


def pandas_to_arrow(
    columns: Sequence[pd.Series[Any]],
    schema: StructType,
    *,
    timezone: str,
    safe: bool,
    by_name: bool,
    integers_to_decimals: bool,
) -> pa.RecordBatch:
    """Return a function's output, one series per field, as Spark reads it.

    Before 4.1 what has another type is not cast, and integers never stand in decimal columns.
    """
    if ZONES:
        return PandasToArrowConversion.convert(
            list(columns),
            schema,
            timezone=timezone,
            safecheck=safe,
            arrow_cast=True,
            assign_cols_by_name=by_name,
            int_to_decimal_coercion_enabled=integers_to_decimals,
        )
    fields = pandas_types.to_arrow_schema(schema)
    serializer = _serializer(timezone, safe, integers_to_decimals)
    arrays = [
        serializer._create_array(column.rename(field.name), field.type, arrow_cast=serializer._arrow_cast)
        for column, field in zip(columns, fields, strict=True)
    ]
    zoned = [array.cast(_in_zone(array.type, timezone)) for array in arrays]
    return pa.RecordBatch.from_arrays(zoned, fields.names)


def _serializer(timezone: str, safe: bool, integers_to_decimals: bool = False) -> Any:
    since = {} if SPARK < (4, 1) else {"arrow_cast": True, "int_to_decimal_coercion_enabled": integers_to_decimals}
    return ArrowStreamPandasUDFSerializer(timezone, safe, assign_cols_by_name=True, **since)


def arrow_to_tuples(table: pa.Table, schema: StructType) -> list[tuple[Any, ...]]:
    """Return rows as Python values. Before 4.1 they come as `Row`, which is a tuple."""
    rows: Any = ArrowTableToRowsConversion
    if SPARK < (4, 1):
        return rows.convert(table, schema)  # type: ignore[no-any-return]
    return rows.convert(table, schema, return_as_tuples=True)  # type: ignore[no-any-return]
