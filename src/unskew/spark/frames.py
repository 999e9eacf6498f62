"""Recorded rows as a DataFrame that may be read any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from unskew.runtime.record import Output
from unskew.runtime.wire import unpack
from unskew.spark.hadoop import contents, taken_in
from unskew.spark.settings import session_settings
from unskew.state.files import Files, Piece
from unskew.versions.arrow import to_arrow_schema

# Let Spark keep recorded rows as Arrow until a task reads them, else the driver makes a row object of each at once.
NO_LOCAL_RELATION = {"spark.sql.execution.arrow.localRelationThreshold": "0"}


def output_frame(spark: SparkSession, output: Output, files: Files, schema: StructType) -> DataFrame:
    """Return the rows of a batch. The record alone decides the partitions and the order within them.

    Columns go by position, as two columns of `schema` may have the same name.
    """
    names = schema.names
    if len(set(names)) < len(names):  # which `mapInArrow` does not support
        schema = StructType([StructField(f"c{place}", field.dataType) for place, field in enumerate(schema)])
    fields = to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone"))
    arrow = pa.schema([field.with_nullable(True) for field in fields])  # as after any stateful operator in Spark
    schema = StructType([StructField(field.name, field.dataType, True, field.metadata) for field in schema])
    tables = [unpack(blob).rename_columns(arrow.names).cast(arrow) for blob in output.inline]
    with session_settings(spark, NO_LOCAL_RELATION):
        small = spark.createDataFrame(pa.concat_tables([arrow.empty_table(), *tables]), schema=schema).coalesce(1)
    if not output.pieces:
        return small if schema.names == names else small.toDF(*names)
    placed = contents(spark, files, {place: (piece,) for place, piece in enumerate(output.pieces)})
    large = placed.mapInArrow(partial(_read_pieces, files, output.pieces, arrow), schema)
    rows = large.unionAll(small) if output.inline else large
    return rows if schema.names == names else rows.toDF(*names)


def _read_pieces(
    files: Files, pieces: tuple[Piece, ...], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for place in taken_in(files, batches):
        rows = unpack(files.read_piece(pieces[place]))
        yield from rows.rename_columns(schema.names).cast(schema).to_batches()
