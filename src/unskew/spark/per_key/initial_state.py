"""State to begin with: from a native query's checkpoint, or from any table."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from unskew.errors import CheckpointError, ColumnError
from unskew.operators.chunks import Columns
from unskew.routing.table import RoutingTable
from unskew.spark.packing import pack
from unskew.spark.per_key.base import PerKeyFunction
from unskew.spark.per_key.calls import STATE, TIMEOUT
from unskew.spark.router import with_hashes

ROWS_PER_FILE = 1 << 18

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


def write_initial_state(
    initial: DataFrame, operator: PerKeyFunction, table: RoutingTable, keep: Callable[[int, bytes], str]
) -> dict[int, tuple[str, ...]]:
    """Store state for the channels that own it under a routing table; return each channel's files.

    All of it passes through the driver.

    Parameters
    ----------
    initial
        The key columns, the struct ``state``, and perhaps ``timeout_ms``; every key once.
    operator
        Whose state it is.
    table
        Which channel owns which key.
    keep
        Stores a channel's state for good and returns the file's name.
    """
    files: dict[int, tuple[str, ...]] = {}
    for rows in _state_rows(initial, operator):
        owner = table.lookup(rows.column("hash").to_numpy())
        for channel in np.unique(owner).tolist():
            part = rows.filter(pa.array(owner == channel))
            files[channel] = (*files.get(channel, ()), keep(channel, pack(part)))
    return files


def _state_rows(initial: DataFrame, operator: PerKeyFunction) -> Iterator[pa.RecordBatch]:
    wanted = [*operator.key, STATE]
    missing = [name for name in wanted if name not in initial.columns]
    if missing:
        raise ColumnError("the initial state lacks a column", got=missing[0], hint=f"it needs {', '.join(wanted)}")
    timeouts = operator.deadline is not None
    if timeouts and TIMEOUT not in initial.columns:
        initial = initial.withColumn(TIMEOUT, F.lit(None).cast("long"))
    names = operator.value_schema.names
    columns = Columns.of(operator.key_schema, operator.value_schema)
    everything = initial.select(*operator.key, *names).toArrow()
    known = pc.is_valid(everything.column(STATE))
    if timeouts:
        known = pc.or_(known, pc.is_valid(everything.column(TIMEOUT)))
    for batch in everything.filter(known).to_batches(max_chunksize=ROWS_PER_FILE):
        rows, hashes = with_hashes(pa.Table.from_batches([batch]), operator.key)
        yield columns.make_rows(hashes, rows.select(list(operator.key)), rows.select(names))
