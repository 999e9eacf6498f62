"""How many rows each key of a static DataFrame has, counted in one pass over the key's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.codec import dump, load
from unskew.load.statistics import Statistics, add_up, combine
from unskew.routing.lookup import slot_of
from unskew.runtime.wire import HASH_COLUMN, record_batch
from unskew.spark.batch.routing import key_hash
from unskew.versions.arrow import from_arrow_schema

COUNTED = pa.schema([("statistics", pa.binary())])
HASHES_HELD = 1 << 20

Hashes = NDArray[np.int64]
Column = NDArray[np.float64]


def key_statistics(
    rows: DataFrame, key: Sequence[str], slots: int, tracked_keys: int | None, sample: float | None
) -> Statistics:
    """Run one job that counts the rows of each key, or of each key in a sample.

    It reads only the key's columns, and holds 16 bytes per distinct key of a partition. Each partition reports its
    heaviest keys one by one, at most `tracked_keys`, and the rest by slot.
    """
    keys = rows.select(key_hash(rows, key).alias(HASH_COLUMN))
    if sample is not None:
        keys = keys.sample(fraction=sample, seed=0)
    counted = keys.mapInArrow(_Count(slots, tracked_keys), from_arrow_schema(COUNTED)).collect()
    return combine([load(Statistics, bytes(row.statistics)) for row in counted])


@dataclass(frozen=True)
class _Count:
    """A function for ``mapInArrow``: hashes in, the partition's statistics out. A row costs 1 and counts as state 1."""

    slots: int
    tracked_keys: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashes, rows = self._rows_by_key(batches)
        listed = np.ones(len(hashes), np.bool_)
        if self.tracked_keys is not None and len(hashes) > self.tracked_keys:
            listed[:] = False
            listed[np.argpartition(-rows, self.tracked_keys)[: self.tracked_keys]] = True
        rest = add_up(rows[~listed], slot_of(hashes[~listed], self.slots), self.slots)
        single = rows[listed]
        statistics = Statistics(hashes[listed], single, single, single, rest, rest, rest, distinct_keys=len(hashes))
        yield record_batch(COUNTED, [dump(statistics)])

    def _rows_by_key(self, batches: Iterator[pa.RecordBatch]) -> tuple[Hashes, Column]:
        hashes, rows = np.empty(0, np.int64), np.empty(0)
        waiting: list[Hashes] = []
        for batch in batches:
            waiting.append(batch.column(HASH_COLUMN).to_numpy())
            if sum(map(len, waiting)) >= HASHES_HELD:
                hashes, rows = _added(hashes, rows, waiting)
                waiting = []
        return _added(hashes, rows, waiting)


def _added(hashes: Hashes, rows: Column, more: list[Hashes]) -> tuple[Hashes, Column]:
    everything = np.concatenate([hashes, *more])
    distinct, entry = np.unique(everything, return_inverse=True)
    weights = np.concatenate([rows, np.ones(len(everything) - len(hashes))])
    return distinct, add_up(weights, entry, len(distinct))
