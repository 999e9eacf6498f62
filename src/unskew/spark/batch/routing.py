"""Rows of a static DataFrame on their way to their channels, packed, and out of the packs again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from unskew.routing.table import RoutingTable
from unskew.spark.packing import pack, unpack
from unskew.spark.router import HASH_COLUMN, with_hashes
from unskew.spark.task import task_context

PACKED_SCHEMA = "label int, side int, source int, sequence int, blob binary"
PACKED_ARROW = pa.schema(
    [*((name, pa.int32()) for name in ("label", "side", "source", "sequence")), ("blob", pa.binary())]
)

ROWS_PACKED_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class BatchRouter:
    """A function for ``mapInArrow``: record batches in, one row per channel and pack out.

    Where a row goes is a function of its key alone, so that a task that runs again sends it to the same channel.

    Parameters
    ----------
    key
        The key's columns.
    table
        Who owns which key.
    labels
        The label of each channel: Spark's hash sends it to the partition of that number.
    side
        Which of the inputs of a cogroup these rows are.
    """

    key: tuple[str, ...]
    table: RoutingTable
    labels: tuple[int, ...]
    side: int = 0

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Route one partition."""
        source = task_context().partitionId()
        for sequence, rows in enumerate(_packs(batches)):
            rows, hashes = with_hashes(rows, self.key)  # noqa: PLW2901
            rows = rows.append_column(HASH_COLUMN, pa.array(hashes))  # noqa: PLW2901
            channels = self.table.lookup(hashes)
            order = np.argsort(channels.astype(np.uint16), kind="stable")
            ends = np.cumsum(np.bincount(channels, minlength=self.table.channels))
            ordered = rows.take(pa.array(order)).combine_chunks()
            blobs, present, start = [], [], 0
            for channel, end in enumerate(ends.tolist()):
                if end > start:
                    blobs.append(pack(ordered.slice(start, end - start)))
                    present.append(self.labels[channel])
                start = end
            columns = [present, *([value] * len(blobs) for value in (self.side, source, sequence)), blobs]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, PACKED_ARROW, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=PACKED_ARROW)


def place(packed: DataFrame, channels: int) -> DataFrame:
    """Shuffle packs so that channel i is partition i. Adaptive execution leaves it so: the number is the user's."""
    return packed.repartition(channels, "label")


def gathered(batches: Iterator[pa.RecordBatch], schemas: tuple[pa.Schema, ...]) -> list[pa.Table]:
    """Return a channel's rows, one table per side, in the order of source partition and place in it."""
    packs: list[dict[tuple[int, int], bytes]] = [{} for _ in schemas]
    for batch in batches:
        sides, sources, sequences = (batch.column(name).to_pylist() for name in ("side", "source", "sequence"))
        for i, blob in enumerate(batch.column("blob")):
            packs[sides[i]][sources[i], sequences[i]] = blob.as_buffer()
    tables = []
    for side, schema in zip(packs, schemas, strict=True):
        wanted = schema.append(pa.field(HASH_COLUMN, pa.int64()))
        pieces = [unpack(side[place]).cast(wanted) for place in sorted(side)]
        tables.append(pa.concat_tables(pieces) if pieces else wanted.empty_table())
    return tables


def _packs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(each.num_rows for each in held) >= ROWS_PACKED_AT_ONCE:
            yield pa.Table.from_batches(held)
            held = []
    if sum(each.num_rows for each in held):
        yield pa.Table.from_batches(held)
