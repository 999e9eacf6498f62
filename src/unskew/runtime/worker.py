"""Workers of a whole-stream splitting scheme: rows become partial states where the scheme has sent them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.operators import Operator
from unskew.routing.table import RoutingTable
from unskew.runtime.prepare import combined
from unskew.runtime.route import parcels
from unskew.runtime.wire import HASH_COLUMN, ROWS, unpack
from unskew.state.groups import group_rows


@dataclass(frozen=True, eq=False)
class Worker:
    """Turns the rows that a scheme has sent to a worker into one partial state per key, for the keys' owners.

    A worker keeps nothing from one batch to the next: the paper's aggregation, with a batch for a period. Orders and
    moved state pass through. The output is a function of the parcels, in whatever order they come.

    Parameters
    ----------
    operator
        Who works on the rows.
    table
        Who owns which key.
    task_of
        The task that each channel runs in.
    """

    operator: Operator
    table: RoutingTable
    task_of: NDArray[np.int32]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine: dict[int, list[tuple[int, int, pa.Buffer]]] = {}
        for batch in batches:
            of_rows = np.asarray(batch.column("kind")) == ROWS
            if not of_rows.all():
                yield batch.filter(pa.array(~of_rows))
            rows = batch.filter(pa.array(of_rows))
            columns = (rows.column(name).to_pylist() for name in ("channel", "source", "sequence"))
            for worker, source, sequence, blob in zip(*columns, rows.column("blob"), strict=True):
                mine.setdefault(worker, []).append((source, sequence, blob.as_buffer()))
        for worker, packs in sorted(mine.items()):
            ordered = [unpack(blob) for _, _, blob in sorted(packs, key=lambda each: each[:2])]
            arrived = pa.concat_tables(ordered).combine_chunks()
            hashes = arrived.column(HASH_COLUMN).to_numpy()
            groups = group_rows(arrived, hashes, self.operator.key)
            partial = combined(arrived.drop_columns([HASH_COLUMN]), groups, self.operator)
            yield parcels(partial, self.table.lookup(groups.hashes), self.task_of, worker, 0)
