"""The state of a query of Spark's own, through Spark's state reader: rows and bytes per partition, heaviest keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, IntegralType, StructType

from unskew.advice.counting import key_loads
from unskew.advice.keys import KeyLoads
from unskew.errors import ArgumentError, CheckpointError
from unskew.jobs.sources import first_line

COUNTS = ("count", "n", "rows", "n_rows", "num_rows", "events")  # what people call a count of rows in their state
JOINS = ("symmetricHashJoin",)
PARTITION, BYTES, LOAD = "unskew_partition", "unskew_bytes", "unskew_weight"  # beside the user's key columns
SIDES = ("left", "right")


@dataclass(frozen=True, eq=False)
class StateLoads:
    """The state of one operator."""

    operation: str
    key: tuple[str, ...]
    partitions: int
    rows: NDArray[np.float64]  # of state, in each partition
    bytes: NDArray[np.float64]  # of these rows as JSON
    load: NDArray[np.float64]  # of each partition, in the weight of the keys
    keys: KeyLoads
    weight: str  # what a key's load is: a column of the state, or its bytes
    counts_rows: bool  # the weight counts rows of the input


def read_checkpoint(spark: SparkSession, checkpoint: str, weight: str | None = None) -> StateLoads:
    """Read the last committed state of a checkpoint's first operator with state.

    A key weighs what `weight` says, a column or an expression over `key` and `value`. By default it is a whole number
    in the state that has the name of a count; where there is none, the bytes of the key's state.
    """
    try:
        operators = spark.read.format("state-metadata").load(checkpoint).orderBy("operatorId").collect()
    except PySparkException as error:
        hint = "name the checkpointLocation of a query with state that Spark itself keeps"
        raise CheckpointError(f"Spark finds no state here: {first_line(error)}", where=checkpoint, hint=hint) from None
    if not operators:
        raise CheckpointError(
            "the query of this checkpoint keeps no state", where=checkpoint, hint="skewed keys cost such a query little"
        )
    first = operators[0]
    state = _state(spark, checkpoint, first.operatorName, first.operatorId)
    partitions = int(first.numPartitions)
    size = sql.length(sql.to_json(sql.struct(*(name for name in state.columns if name != "partition_id"))))
    state = state.withColumn(BYTES, size.cast("double"))
    chosen = weight or _count_in(state.schema)
    by_rows = first.operatorName in JOINS and weight is None  # a join keeps every row
    try:
        load = sql.lit(1.0) if by_rows else sql.col(BYTES) if chosen is None else sql.expr(chosen).cast("double")
        rows = state.select(sql.col("partition_id").alias(PARTITION), BYTES, load.alias(LOAD), "key.*")
    except PySparkException as error:
        raise ArgumentError(f"Spark cannot evaluate this: {first_line(error)}", where="weight", got=weight) from None
    key = tuple(rows.columns[3:])
    sums = [sql.count(sql.lit(1)), sql.sum(BYTES), sql.sum(LOAD)]
    measured = np.zeros((3, partitions))
    for place, *each in rows.groupBy(PARTITION).agg(*sums).collect():
        measured[:, place] = each
    keys = key_loads(rows, key, partitions, sql.col(LOAD))
    return StateLoads(
        operation=str(first.operatorName),
        key=key,
        partitions=partitions,
        rows=measured[0],
        bytes=measured[1],
        load=measured[2],
        keys=keys,
        weight="rows of state" if by_rows else chosen or "bytes of state",
        counts_rows=by_rows or chosen is not None,
    )


def _state(spark: SparkSession, checkpoint: str, operation: str, operator: int) -> DataFrame:
    reader = spark.read.format("statestore").option("operatorId", operator)
    if operation in JOINS:
        sides = [reader.option("joinSide", side).load(checkpoint).select("key", "partition_id") for side in SIDES]
        return sides[0].unionAll(sides[1])
    try:
        return reader.load(checkpoint)
    except PySparkException as error:
        hint = "give advice from the event log or from the rows instead"
        raise CheckpointError(
            f"Spark's state reader cannot read this state: {first_line(error)}",
            where=checkpoint,
            got=operation,
            hint=hint,
        ) from None


def _count_in(schema: StructType) -> str | None:
    """Return the only whole number in the state's value that has the name of a count."""
    if "value" not in schema.names:
        return None
    found = [path for path, kind in _leaves("value", schema["value"].dataType) if isinstance(kind, IntegralType)]
    named = [path for path in found if path.rpartition(".")[2].strip("`").lower() in COUNTS]
    return named[0] if len(named) == 1 else None


def _leaves(path: str, kind: DataType) -> list[tuple[str, DataType]]:
    if not isinstance(kind, StructType):
        return [(path, kind)]
    return [leaf for field in kind for leaf in _leaves(f"{path}.`{field.name}`", field.dataType)]
