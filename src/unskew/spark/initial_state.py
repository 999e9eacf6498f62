"""State to begin with: what a stage knows of its keys, and of the time, before its first batch."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from unskew.operators import Operator
from unskew.operators.presum import quoted
from unskew.routing.table import RoutingTable
from unskew.runtime.jobs import Work
from unskew.runtime.prepare import with_hashes
from unskew.runtime.route import parcels
from unskew.runtime.wire import PARCELS
from unskew.runtime.wire import STATE as STATE_KIND
from unskew.spark.check import require_frame
from unskew.spark.inputs import arrow_schema
from unskew.spark.jobs import Numbered
from unskew.state.chunks import Columns
from unskew.versions.arrow import from_arrow_schema

WATERMARKS_MARK = "unskew.watermarks_ms"  # in the metadata of a column of state


@dataclass(frozen=True)
class Watermarks:
    """The watermarks of a query that has stopped: of its last batch, and of the one that would have come next."""

    last_ms: int = 0
    next_ms: int = 0


@dataclass(frozen=True, eq=False)
class Beginning:
    """What is known before the first batch."""

    rows: DataFrame
    parcels: Callable[[DataFrame, Any, Work], DataFrame]  # makes parcels for an operator of the rows
    watermarks: Watermarks = Watermarks()


def beginning_with(state: DataFrame, operator: Operator) -> Beginning:
    """Return how an operator begins with a table of state; refuse a table that lacks something."""
    require_frame(state, "initial_state")
    operator.state_columns(arrow_schema(state))
    marks = [field.metadata[WATERMARKS_MARK] for field in state.schema if WATERMARKS_MARK in field.metadata]
    return Beginning(state, initial_parcels, Watermarks(*json.loads(marks[0])) if marks else Watermarks())


def with_watermarks(state: DataFrame, watermarks: Watermarks) -> DataFrame:
    """Return a table of state that remembers how far event time had come, in its first column."""
    first, *others = state.columns
    mark = {WATERMARKS_MARK: json.dumps([watermarks.last_ms, watermarks.next_ms])}
    return state.select(F.col(quoted(first)).alias(first, metadata=mark), *map(quoted, others))


def initial_parcels(state: DataFrame, operator: Operator, work: Work) -> DataFrame:
    """Return state to begin with as parcels for the channels that own it in the first batch."""
    rows = state.select(*map(quoted, (*operator.key, *operator.state_columns(arrow_schema(state)))))
    return rows.mapInArrow(
        Numbered(StateParcels(operator, work.route.table, work.route.task_of)), from_arrow_schema(PARCELS)
    )


@dataclass(frozen=True, eq=False)
class StateParcels:
    """Turns rows of state into parcels, in a task."""

    operator: Operator
    table: RoutingTable
    task_of: NDArray[np.int32]

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = self.operator
        columns = Columns.of(operator.key_schema, operator.value_schema)
        for sequence, batch in enumerate(batches):
            rows = pa.Table.from_batches([batch])
            values, known = operator.taken_over(rows)
            for field in operator.key_schema:  # a key is hashed in the stream's type
                place = rows.schema.get_field_index(field.name)
                rows = rows.set_column(place, field, rows.column(place).cast(field.type))
            rows, hashes = with_hashes(rows, operator.key)
            held = pa.Table.from_batches([columns.make_rows(hashes, rows.select(list(operator.key)), values)])
            held, owners = held.filter(pa.array(known)), self.table.lookup(hashes[known])
            yield parcels(held, owners, self.task_of, -1 - source, sequence, kind=STATE_KIND)
