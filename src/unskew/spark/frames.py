"""Recorded rows as a DataFrame that may be read any number of times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from unskew.runtime.record import Output
from unskew.runtime.wire import unpack
from unskew.spark.hadoop import contents, taken_in
from unskew.spark.settings import session_settings
from unskew.state.files import Files, Piece

NO_LOCAL_RELATION = {"spark.sql.execution.arrow.localRelationThreshold": "0"}
"""Has Spark keep recorded rows as Arrow until a task reads them; else the driver makes a row object of each at once."""


@dataclass(frozen=True)
class ReadPieces:
    """A function for ``mapInArrow``: the places of pieces in, as `contents` gives them, the rows in the pieces out."""

    files: Files
    pieces: tuple[Piece, ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for place in taken_in(self.files, batches):
            rows = unpack(self.files.read_piece(self.pieces[place]))
            yield from rows.rename_columns(self.schema.names).cast(self.schema).to_batches()


def output_frame(spark: SparkSession, output: Output, files: Files, schema: StructType) -> DataFrame:
    """Return the rows of a batch; partitions and the order in them are a function of the record alone.

    Columns go by their places: in `schema` two may have one name, as in Spark.
    """
    names = schema.names
    if len(set(names)) < len(names):  # which ``mapInArrow`` does not know
        schema = StructType([StructField(f"c{place}", field.dataType) for place, field in enumerate(schema)])
    fields = to_arrow_schema(schema, timezone=spark.conf.get("spark.sql.session.timeZone"))
    arrow = pa.schema([field.with_nullable(True) for field in fields])  # as behind any stateful operator of Spark's
    schema = StructType([StructField(field.name, field.dataType, True, field.metadata) for field in schema])
    tables = [unpack(blob).rename_columns(arrow.names).cast(arrow) for blob in output.inline]
    with session_settings(spark, NO_LOCAL_RELATION):
        small = spark.createDataFrame(pa.concat_tables([arrow.empty_table(), *tables]), schema=schema).coalesce(1)
    if not output.pieces:
        return small if schema.names == names else small.toDF(*names)
    placed = contents(spark, files, {place: (piece,) for place, piece in enumerate(output.pieces)})
    large = placed.mapInArrow(ReadPieces(files, output.pieces, arrow), schema)
    rows = large.unionAll(small) if output.inline else large
    return rows if schema.names == names else rows.toDF(*names)
