"""Workers of a whole-stream splitting scheme: rows become partial states where the scheme has sent them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from unskew.operators import Operator
from unskew.spark.packing import unpack
from unskew.spark.router import PackedRows, prepare
from unskew.spark.task import current_decision, task_context


@dataclass(frozen=True)
class Worker:
    """A function for ``mapInArrow`` behind the shuffle to the workers: packs in, partial states for the owners out.

    A worker keeps nothing from one batch to the next. It turns the rows that it got into one partial state per key and
    sends those to the keys' owners, which add them to the totals: the paper's aggregation, with a batch for a period.
    The output is a function of the decision and of the rows, in whatever order the packs come.

    Parameters
    ----------
    query
        Name under which decisions are found.
    operator
        Who works on the rows.
    packed
        How rows travel.
    """

    query: str
    operator: Operator
    packed: PackedRows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work on the rows of one worker."""
        decision, worker = current_decision(self.query), task_context().partitionId()
        if worker == 0:
            yield self.packed.ticks(decision.channels_called, worker)
        packs = pa.Table.from_batches([batch for batch in batches if batch.num_rows] or [self.packed.nothing()])
        blobs = packs.sort_by([("source", "ascending"), ("sequence", "ascending")]).column("blob")
        if len(blobs):
            rows = pa.concat_tables([unpack(blob.as_buffer()) for blob in blobs]).cast(self.operator.input_schema)
            combined, channels = prepare(rows, self.operator.taught(decision.lesson), decision.table)
            yield self.packed.rows(combined, channels, worker, 0)
