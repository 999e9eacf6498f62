"""How the rows of a static DataFrame reach their channels: Spark sends them, by a column that we add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from unskew.operators.presum import quoted
from unskew.routing.table import RoutingTable
from unskew.versions.shuffle import partition_keys, repartition_by_key

CHANNEL = "unskew channel"


def key_hash(rows: DataFrame, key: Sequence[str]) -> Column:
    """Return Spark's ``xxhash64`` of the key columns; keys that Spark groups together have the same."""
    columns = [_hashable(sql.col(quoted(name)), rows.schema[name].dataType) for name in key]
    return sql.xxhash64(*columns)


def placed(rows: DataFrame, key: Sequence[str], table: RoutingTable) -> DataFrame:
    """Return the rows with a column that tells channels apart, each in the partition that is its channel.

    The key alone decides where a row goes, so a task that runs again sends it to the same channel. Adaptive execution
    does not change a number of partitions that we set.
    """
    keys = np.array(partition_keys(table.channels))

    def owner(hashes: pd.Series) -> pd.Series:
        return pd.Series(keys[table.lookup(hashes.to_numpy())])

    channel = sql.pandas_udf(owner, "int")(key_hash(rows, key))  # type: ignore[attr-defined]
    return repartition_by_key(rows.withColumn(CHANNEL, channel), table.channels, quoted(CHANNEL))


def _hashable(column: Column, kind: DataType) -> Column:
    """Return a column without maps, which have no hash; a map becomes its entries in the order of their keys."""
    if isinstance(kind, MapType):
        value = kind.valueType
        return sql.transform(
            sql.array_sort(sql.map_keys(column)),
            lambda key: sql.struct(key, _hashable(column[key], value)),
        )
    if "map<" not in kind.simpleString():
        return column
    if isinstance(kind, ArrayType):
        element = kind.elementType
        return sql.transform(column, lambda each: _hashable(each, element))
    assert isinstance(kind, StructType)
    return sql.struct(*(_hashable(column.getField(field.name), field.dataType) for field in kind))
