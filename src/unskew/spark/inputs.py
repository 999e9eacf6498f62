"""Several streams as one, every row with the name of its stream, so that one stage has several inputs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from unskew.errors import ArgumentError, ColumnError
from unskew.operators.base import EVENT_TIME_METADATA, INPUT, TIME
from unskew.spark.check import require_frame
from unskew.spark.plans import watermark_columns
from unskew.versions.arrow import to_arrow_schema

EVENT_TIME_MARK = "unskew.event_time"


def tagged(key: str | Sequence[str], **streams: DataFrame) -> DataFrame:
    """Put several streams that share a key into one, so that one stage sees all rows of a key.

    The result has the key columns; ``input``, the name of the stream that a row comes from; ``time``, its event time,
    if the streams have watermarks; and ``<stream>_<column>`` for every other column of every stream, null in rows of
    the other streams. The watermark is Spark's for several streams, the least of theirs.

    Parameters
    ----------
    key
        The key column or columns. Every stream has them, with the same types.
    streams
        The streams by name. Either all of them have a watermark, or none.

    Examples
    --------
    ::

        rows = unskew.tagged("user", orders=orders, payments=payments)
        unskew.balance(rows, "user").aggregate(ordered="sum(orders_amount)", paid="sum(payments_amount)")
    """
    names = (key,) if isinstance(key, str) else tuple(key or ())
    if not names:
        raise ArgumentError(
            "there is no key to put the streams together by", where="key", hint='name its columns: "user"'
        )
    for name, stream in streams.items():
        require_frame(stream, name)
    if len(streams) < 2:
        raise ArgumentError(
            "there must be two streams or more", got=list(streams), hint="name them: left=..., right=..."
        )
    _check(names, streams)
    times = {name: watermark_columns(stream) for name, stream in streams.items()}
    if any(times.values()) and not all(len(columns) == 1 for columns in times.values()):
        raise ArgumentError("either all streams have one watermark, or none has any", got=times)
    parts = [stream.select(_columns(names, name, streams, times[name])) for name, stream in streams.items()]
    return reduce(DataFrame.unionByName, parts)


def _check(key: Sequence[str], streams: dict[str, DataFrame]) -> None:
    first = next(iter(streams.values()))
    for name, stream in streams.items():
        for column in key:
            if column not in stream.columns:
                hint = f"one of {', '.join(stream.columns)}"
                raise ColumnError("there is no column of that name", where=f"stream {name!r}", got=column, hint=hint)
            if stream.schema[column].dataType != first.schema[column].dataType:
                kinds = [each.schema[column].dataType.simpleString() for each in (first, stream)]
                raise ColumnError(
                    f"the key has type {kinds[1]} here, and {kinds[0]} elsewhere", where=f"stream {name!r}"
                )


def _columns(key: Sequence[str], name: str, streams: dict[str, DataFrame], times: list[str]) -> list[Column]:
    """Return the columns of one stream's rows: its own values, and nulls for those of the other streams."""
    columns = [*(sql.col(column) for column in key), sql.lit(name).alias(INPUT)]
    if times:
        columns.append(sql.col(times[0]).alias(TIME, metadata={EVENT_TIME_MARK: True}))
    for other, stream in streams.items():
        for field in stream.schema:
            if field.name not in key:
                value = sql.col(field.name) if other == name else sql.lit(None).cast(field.dataType)
                columns.append(value.alias(f"{other}_{field.name}", metadata={}))
    return columns


def arrow_schema(rows: DataFrame) -> pa.Schema:
    """Return the rows' schema as tasks see it, with the watermark's column, if there is one, in its metadata."""
    schema = to_arrow_schema(rows.schema, timezone=rows.sparkSession.conf.get("spark.sql.session.timeZone"))
    marked = [field.name for field in rows.schema if EVENT_TIME_MARK in field.metadata]
    watermarks = marked or sorted(set(watermark_columns(rows)) & set(rows.columns))
    if len(watermarks) > 1:
        raise ArgumentError(
            "a stream may have a watermark on one column", got=watermarks, hint="see unskew.tagged for several streams"
        )
    return schema.with_metadata({EVENT_TIME_METADATA: watermarks[0]}) if watermarks else schema
