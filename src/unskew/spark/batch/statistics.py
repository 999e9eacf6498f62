"""How many rows each key of a static DataFrame has, found out in one pass over the key's columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from unskew.load.statistics import Statistics, add_up, combine
from unskew.routing.lookup import slot_of
from unskew.spark.packing import pack, unpack
from unskew.spark.router import with_hashes

COUNTED_SCHEMA = "keys binary, slots binary, distinct long"
COUNTED_ARROW = pa.schema([("keys", pa.binary()), ("slots", pa.binary()), ("distinct", pa.int64())])

COUNTS_HELD = 1 << 20


def key_statistics(
    rows: DataFrame, key: Sequence[str], slots: int, tracked_keys: int | None, sample: float | None
) -> Statistics:
    """Run one job that counts rows by key, or those of a sample.

    Reads the key's columns only. Each partition reports its heaviest keys one by one, at most `tracked_keys`, and the
    rest by slot: 16 bytes a key, 8 a slot.
    """
    keys = rows.select(*key)
    if sample is not None:
        keys = keys.sample(fraction=sample, seed=0)
    counted = keys.mapInArrow(_Count(tuple(key), slots, tracked_keys), COUNTED_SCHEMA).collect()
    return combine([_statistics(bytes(row.keys), bytes(row.slots), row.distinct) for row in counted])


@dataclass(frozen=True)
class _Count:
    """A function for ``mapInArrow``: rows in, one row with the partition's counts out."""

    key: tuple[str, ...]
    slots: int
    tracked_keys: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        hashes, counts = np.empty(0, np.int64), np.empty(0, np.float64)
        waiting: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        for batch in batches:
            waiting.append(with_hashes(pa.Table.from_batches([batch]), self.key)[1])
            if sum(map(len, waiting)) >= COUNTS_HELD:
                hashes, counts = _added(hashes, counts, waiting)
                waiting = []
        hashes, counts = _added(hashes, counts, waiting)
        listed = np.ones(len(hashes), bool)
        if self.tracked_keys is not None and len(hashes) > self.tracked_keys:
            listed[:] = False
            listed[np.argpartition(-counts, self.tracked_keys)[: self.tracked_keys]] = True
        rest = add_up(counts[~listed], slot_of(hashes[~listed], self.slots), self.slots)
        keys = pa.table({"hash": hashes[listed], "rows": counts[listed]})
        columns = [[pack(keys)], [rest.tobytes()], [len(hashes)]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, COUNTED_ARROW, strict=True)],
            schema=COUNTED_ARROW,
        )


def _added(
    hashes: np.ndarray[tuple[int], np.dtype[np.int64]],
    counts: np.ndarray[tuple[int], np.dtype[np.float64]],
    more: list[np.ndarray[tuple[int], np.dtype[np.int64]]],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], np.ndarray[tuple[int], np.dtype[np.float64]]]:
    everything = np.concatenate([hashes, *more])
    distinct, entry = np.unique(everything, return_inverse=True)
    weights = np.concatenate([counts, np.ones(len(everything) - len(hashes))])
    return distinct, add_up(weights, entry, len(distinct))


def _statistics(keys: bytes, slots: bytes, distinct: int) -> Statistics:
    listed, rest = unpack(keys), np.frombuffer(slots)
    counts = listed["rows"].to_numpy()
    return Statistics(
        listed["hash"].to_numpy(),
        tuples=counts,
        cost=counts,
        state=counts,
        slot_tuples=rest,
        slot_cost=rest,
        slot_state=rest,
        distinct_keys=distinct,
    )
