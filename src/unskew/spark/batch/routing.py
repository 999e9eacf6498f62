"""How the rows of a static DataFrame reach their channels: in parcels, as in streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from unskew.routing.table import RoutingTable
from unskew.runtime.cutting import cut
from unskew.runtime.prepare import ROWS_PACKED_AT_ONCE, with_hashes
from unskew.runtime.route import parcels
from unskew.runtime.wire import HASH_COLUMN, PARCELS, unpack
from unskew.spark.jobs import Numbered
from unskew.versions.arrow import from_arrow_schema
from unskew.versions.shuffle import repartition_by_id


@dataclass(frozen=True)
class BatchRouter:
    """Turns the rows of one partition into parcels (`wire.PARCELS`), each for one channel; every channel is a task.

    The key alone decides where a row goes, so a task that runs again sends it to the same channel.
    """

    key: tuple[str, ...]
    table: RoutingTable

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tasks = np.arange(self.table.channels, dtype=np.int32)
        for sequence, piece in enumerate(cut(batches, ROWS_PACKED_AT_ONCE)):
            rows, hashes = with_hashes(piece, self.key)
            rows = rows.append_column(HASH_COLUMN, pa.array(hashes))
            yield parcels(rows, self.table.lookup(hashes), tasks, source, sequence)


def placed(inputs: Sequence[tuple[DataFrame, tuple[str, ...]]], table: RoutingTable) -> DataFrame:
    """Return parcels with the rows of all inputs, each given with its key; channel i is partition i.

    The column ``side`` tells the inputs apart. Adaptive execution does not change a number of partitions that we set.
    """
    schema = from_arrow_schema(PARCELS)
    routed = [
        rows.mapInArrow(Numbered(BatchRouter(key, table)), schema).withColumn("side", sql.lit(side))
        for side, (rows, key) in enumerate(inputs)
    ]
    return repartition_by_id(reduce(DataFrame.unionAll, routed), table.channels, "task")


def gathered(batches: Iterator[pa.RecordBatch], schemas: tuple[pa.Schema, ...]) -> list[pa.Table]:
    """Return a channel's rows, one table per side, in the order of source partition and place in it."""
    found: list[dict[tuple[int, int], pa.Buffer]] = [{} for _ in schemas]
    for batch in batches:
        sides, sources, sequences = (batch.column(name).to_pylist() for name in ("side", "source", "sequence"))
        for side, source, sequence, blob in zip(sides, sources, sequences, batch.column("blob"), strict=True):
            found[side][source, sequence] = blob.as_buffer()
    tables = []
    for blobs, schema in zip(found, schemas, strict=True):
        wanted = schema.append(pa.field(HASH_COLUMN, pa.int64()))
        pieces = [unpack(blobs[place]).cast(wanted) for place in sorted(blobs)]
        tables.append(pa.concat_tables([wanted.empty_table(), *pieces]))
    return tables
