"""State to begin with, as a processor's ``handleInitialState`` makes it from rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from unskew.errors import ColumnError
from unskew.operators import Clock
from unskew.operators.presum import quoted
from unskew.routing.table import RoutingTable
from unskew.runtime.jobs import Work
from unskew.runtime.prepare import with_hashes
from unskew.runtime.route import parcels
from unskew.runtime.wire import PARCELS, STATE
from unskew.spark.jobs import Numbered
from unskew.spark.per_key.calls import Blaming, described
from unskew.spark.per_key.processor import Processor
from unskew.state.chunks import Columns
from unskew.state.groups import Groups, group_rows
from unskew.versions.arrow import from_arrow_schema


def handled_parcels(key: tuple[str, ...], rows: DataFrame, processor: Processor, work: Work) -> DataFrame:
    """Return what a processor makes of rows before the first batch, as parcels for the channels that own it.

    The `key` columns of the rows stand for the processor's, in the same order.
    """
    missing = [name for name in key if name not in rows.columns]
    if missing or len(key) != len(processor.key):
        hint = f"group it by {len(processor.key)} of its columns: {', '.join(rows.columns)}"
        raise ColumnError("the initial state has no such key", got=list(key), hint=hint)
    handled = _Handled(processor, key, work.channels.clock, work.route.table, work.route.task_of)
    by_key = rows.repartition(*map(quoted, key))  # all rows of a key in one task
    return by_key.mapInArrow(Numbered(handled), from_arrow_schema(PARCELS))


@dataclass(frozen=True, eq=False)
class _Handled:
    """Calls ``handleInitialState`` for the keys of a task."""

    operator: Processor
    key: tuple[str, ...]
    clock: Clock
    table: RoutingTable
    task_of: NDArray[np.int32]

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        some = list(batches)
        if not sum(batch.num_rows for batch in some):
            return
        operator, columns = self.operator, Columns.of(self.operator.key_schema, self.operator.value_schema)
        rows = pa.Table.from_batches(some)
        keys = rows.select(list(self.key)).rename_columns(list(operator.key)).cast(operator.key_schema)
        keys, hashes = with_hashes(keys, operator.key)
        groups = group_rows(keys, hashes, operator.key)
        values, _, there = self._handle(rows, groups, columns.empty_values(len(groups)))
        held = columns.make_rows(groups.hashes, groups.keys, values).filter(pa.array(there))
        owners = self.table.lookup(groups.hashes[there])
        yield parcels(pa.Table.from_batches([held]), owners, self.task_of, -1 - source, 0, kind=STATE)

    def _handle(self, rows: pa.Table, groups: Groups, nothing: pa.Table) -> tuple[pa.Table, object, NDArray[np.bool_]]:
        processor, handle, now = self.operator.begin(self.clock)
        handle.attach(nothing)
        keys = self.operator.key_tuples(groups.keys)
        batch = rows.take(pa.array(groups.order)).combine_chunks().to_batches()[0]
        inputs = self.operator.inputs(batch, groups.starts)
        describe = partial(described, "handleInitialState", keys, self.clock)
        for group, key in enumerate(keys):
            handle.group = group
            with Blaming(describe, group):
                for each in inputs(group):
                    processor.handleInitialState(key, each, now)
        handle.stage = "TIMER_PROCESSED"
        results = handle.results()
        processor.close()
        return results
