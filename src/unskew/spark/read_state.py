"""``unskew.read_state``: what a query knows about its keys, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from unskew.errors import CheckpointError
from unskew.operators.base import beside_key
from unskew.runtime.log import RecordLog
from unskew.runtime.record import Record
from unskew.spark.check import check_session
from unskew.spark.hadoop import checkpoint_files, contents, taken_in
from unskew.spark.initial_state import Watermarks, with_watermarks
from unskew.spark.offsets import next_watermark_ms
from unskew.spark.paths import qualified
from unskew.state.chunks import Columns
from unskew.state.files import Files, Piece
from unskew.state.keyed_state import KeyedState
from unskew.state.piece_store import PieceStore
from unskew.versions.arrow import from_arrow_schema

SLOTS = 1


def read_state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the keys and the state of a balanced query, whether it runs, has stopped or has crashed.

    The rows show the state after the last committed batch: the key columns, then the columns of the state. They are
    read at once and kept by Spark, so the query may go on. They are what `Stage.continue_from` takes, and what Spark's
    own ``transformWithState`` takes as ``initialState``. The watermark that the query had reached is kept in the
    metadata of the first column.

    Parameters
    ----------
    spark
        A session.
    checkpoint
        The query's ``checkpointLocation``.
    """
    check_session(spark)
    files = checkpoint_files(spark, qualified(spark, checkpoint))
    log = RecordLog(files.child("unskew"))
    _, committed = log.last()
    record = log.read(committed) if committed >= 0 else None
    if record is None:
        raise CheckpointError(
            "no batch of a balanced query is committed here",
            where=checkpoint,
            hint="give its checkpointLocation",
        )
    columns = Columns.of_rows(record.columns.schema)
    keys, values = columns.keys, columns.values
    renamed = [field.with_name(beside_key(field.name, keys.names)) for field in values]
    arrow = pa.schema([*keys, *renamed])
    schema = from_arrow_schema(arrow)
    if not record.channels:
        nothing = spark.createDataFrame(arrow.empty_table(), schema=schema)
        return with_watermarks(nothing, _watermarks(files, record))
    manifests = {channel: state.manifest for channel, state in record.channels.items()}
    pin = log.pin(record)
    try:
        placed = contents(spark, log.files, {channel: _pieces(log.files, manifests[channel]) for channel in manifests})
        read = partial(_read_channels, log.files, manifests, keys, values, arrow)
        rows = placed.mapInArrow(read, schema).localCheckpoint(eager=True)
        return with_watermarks(rows, _watermarks(files, record))
    finally:
        log.unpin(pin)


def _watermarks(checkpoint: Files, record: Record) -> Watermarks:
    last_ms = record.watermark_ms or 0
    committed = checkpoint.read_or_none(f"commits/{record.batch_id}") is not None
    return Watermarks(last_ms, max(last_ms, next_watermark_ms(checkpoint, record.batch_id) if committed else 0))


def _pieces(files: Files, manifest: Piece) -> Iterator[Piece]:
    """Yield what a channel's state consists of; reads the manifest when the first piece is wanted."""
    yield from PieceStore(files, manifest).pieces


def _read_channels(
    files: Files,
    manifests: Mapping[int, Piece],
    keys: pa.Schema,
    values: pa.Schema,
    output: pa.Schema,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for channel in taken_in(files, batches):
        with KeyedState.open(PieceStore(files, manifests[channel]), keys, values, slots=SLOTS) as state:
            for rows in state.scan():
                arrays = rows.columns[1:]  # without the hash
                yield from pa.Table.from_arrays(arrays, schema=output).to_batches()
