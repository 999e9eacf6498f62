"""State to begin with: from a native query's checkpoint, or from any table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from unskew.errors import CheckpointError, ColumnError
from unskew.operators.presum import quoted
from unskew.routing.table import RoutingTable
from unskew.runtime.jobs import Work
from unskew.runtime.prepare import with_hashes
from unskew.runtime.route import parcels
from unskew.runtime.wire import PARCELS
from unskew.runtime.wire import STATE as STATE_KIND
from unskew.spark.check import require_frame
from unskew.spark.jobs import Numbered
from unskew.spark.per_key.base import PerKeyFunction
from unskew.spark.per_key.calls import STATE, TIMEOUT
from unskew.state.chunks import Columns
from unskew.versions.arrow import from_arrow_schema

NATIVE_OPERATOR = "applyInPandasWithState"


def state_of(spark: SparkSession, checkpoint: str, *, operator_id: int = 0) -> DataFrame:
    """Return the state that a native query with ``applyInPandasWithState`` has left in its checkpoint.

    The native query must have stopped. The rows are what ``initial_state=`` takes: the key columns, the struct
    ``state`` and ``timeout_ms``, null where the key has no timeout.

    Parameters
    ----------
    spark
        A session.
    checkpoint
        The native query's ``checkpointLocation``.
    operator_id
        Which of the query's stateful operators; 0 is the first one.
    """
    found = spark.read.format("state-metadata").load(checkpoint).where(F.col("operatorId") == operator_id).collect()
    name = found[0]["operatorName"] if found else None
    if name != NATIVE_OPERATOR:
        raise CheckpointError(
            f"operator {operator_id} of this checkpoint keeps no state of {NATIVE_OPERATOR}",
            where=checkpoint,
            got=name,
            hint="choose another operator_id",
        )
    rows = spark.read.format("statestore").option("operatorId", operator_id).load(checkpoint)
    timeout = F.lit(None).cast("long")
    if "timeoutTimestamp" in rows.schema["value"].dataType.names:  # type: ignore[attr-defined]
        timeout = F.nullif(F.col("value.timeoutTimestamp"), F.lit(-1))
    return rows.select("key.*", F.col("value.groupState").alias(STATE), timeout.alias(TIMEOUT))


def check_initial_state(initial: DataFrame, wanted: Sequence[str]) -> None:
    """Refuse what is no DataFrame with certain columns."""
    require_frame(initial, "initial_state")
    missing = [name for name in wanted if name not in initial.columns]
    if missing:
        raise ColumnError("the initial state lacks a column", got=missing[0], hint=f"it needs {', '.join(wanted)}")


def initial_parcels(initial: DataFrame, operator: PerKeyFunction, work: Work) -> DataFrame:
    """Return state to begin with as parcels for the channels that own it in the first batch.

    `initial` has the key columns, the struct ``state``, and perhaps ``timeout_ms``; every key once.
    """
    if operator.deadline is not None and TIMEOUT not in initial.columns:
        initial = initial.withColumn(TIMEOUT, F.lit(None).cast("long"))
    rows = initial.select(*map(quoted, (*operator.key, *operator.value_schema.names)))
    parcels = _Parcels(operator.key, operator.key_schema, operator.value_schema, work.route.table, work.route.task_of)
    return rows.mapInArrow(Numbered(parcels), from_arrow_schema(PARCELS))


@dataclass(frozen=True, eq=False)
class _Parcels:
    """Turns rows of state into parcels, in a task."""

    key: tuple[str, ...]
    key_schema: pa.Schema
    value_schema: pa.Schema
    table: RoutingTable
    task_of: NDArray[np.int32]

    def __call__(self, source: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        columns = Columns.of(self.key_schema, self.value_schema)
        for sequence, batch in enumerate(batches):
            known = pc.is_valid(batch.column(STATE))
            if TIMEOUT in self.value_schema.names:
                known = pc.or_(known, pc.is_valid(batch.column(TIMEOUT)))
            some = pa.Table.from_batches([batch.filter(known)])
            for field in self.key_schema:  # a key is hashed in the stream's type
                some = some.set_column(
                    some.schema.get_field_index(field.name), field, some[field.name].cast(field.type)
                )
            rows, hashes = with_hashes(some, self.key)
            held = columns.make_rows(hashes, rows.select(list(self.key)), rows.select(self.value_schema.names))
            owners = self.table.lookup(hashes)
            yield parcels(pa.Table.from_batches([held]), owners, self.task_of, -1 - source, sequence, kind=STATE_KIND)
