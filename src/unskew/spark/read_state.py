"""``unskew.read_state``: what a query knows about its keys, as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from unskew.errors import CheckpointError
from unskew.runtime.log import RecordLog
from unskew.spark.hadoop import checkpoint_files, contents, taken_in
from unskew.spark.paths import qualified
from unskew.state.chunks import KEY_PREFIX, VALUE_PREFIX
from unskew.state.files import Files, Piece
from unskew.state.keyed_state import KeyedState
from unskew.state.piece_store import PieceStore

SLOTS = 1


def read_state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Return the keys and state of a balanced query, whether it runs, has stopped or has crashed.

    The rows are those after the last batch that is committed: the key's columns, then the columns of the state. They
    are read at once and kept by Spark, so the query may go on. What a per-key function keeps comes in the form that
    ``initial_state=`` takes.

    Parameters
    ----------
    spark
        A session.
    checkpoint
        The query's ``checkpointLocation``.
    """
    log = RecordLog(checkpoint_files(spark, qualified(spark, checkpoint)).child("unskew"))
    _, committed = log.last()
    record = log.read(committed) if committed >= 0 else None
    if record is None:
        raise CheckpointError(
            "no batch of a balanced query is committed here", where=checkpoint, hint="is this its checkpointLocation?"
        )
    reader = ReadChannels(log.files, record.columns, {c: state.manifest for c, state in record.channels.items()})
    schema = from_arrow_schema(reader.schema, prefer_timestamp_ntz=True)
    if not record.channels:
        return spark.createDataFrame(reader.schema.empty_table(), schema=schema)
    pin = log.pin(record)
    try:
        wanted = {channel: _pieces(log.files, manifest) for channel, manifest in reader.manifests.items()}
        placed = contents(spark, log.files, wanted)
        return placed.mapInArrow(reader, schema).localCheckpoint(eager=True)
    finally:
        log.unpin(pin)


def _pieces(files: Files, manifest: Piece) -> Iterator[Piece]:
    """Yield what a channel's state consists of; reads the manifest only for those who ask."""
    yield from PieceStore(files, manifest).pieces


@dataclass(frozen=True, eq=False)
class ReadChannels:
    """A function for ``mapInArrow``: channels in, as `contents` gives them, keys and state out."""

    files: Files
    columns: pa.Table
    manifests: Mapping[int, Piece]

    @property
    def schema(self) -> pa.Schema:
        """The key's columns and the state's, each by its own name; a state's that is also a key's gets a prefix."""
        keys, values = self._fields(KEY_PREFIX), self._fields(VALUE_PREFIX)
        taken = {field.name for field in keys}
        return pa.schema([*keys, *(f.with_name(f"state_{f.name}") if f.name in taken else f for f in values)])

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the channels of one partition."""
        schemas = [pa.schema(self._fields(prefix)) for prefix in (KEY_PREFIX, VALUE_PREFIX)]
        for channel in taken_in(self.files, batches):
            store = PieceStore(self.files, self.manifests[channel])
            with KeyedState.open(store, *schemas, slots=SLOTS) as state:
                for rows in state.scan():
                    arrays = rows.columns[1:]  # without the hash
                    yield from pa.Table.from_arrays(arrays, schema=self.schema).to_batches()

    def _fields(self, prefix: str) -> list[pa.Field]:
        return [f.with_name(f.name.removeprefix(prefix)) for f in self.columns.schema if f.name.startswith(prefix)]
