"""From rows on Spark to `KeyLoads`: Spark counts, the driver gets the heaviest keys and two short columns of sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from unskew.advice.keys import FINER, KeyLoads
from unskew.errors import ArgumentError, ColumnError, did_you_mean
from unskew.load.statistics import add_up
from unskew.routing.table import DEFAULT_SLOTS
from unskew.runtime.measure import key_text

LISTED_KEYS = 1000
LOAD, BY_SPARK, BY_UNSKEW = "unskew_load", "unskew_spark_hash", "unskew_hash"


def key_loads(rows: DataFrame, key: Sequence[str], partitions: int, load: SparkColumn | None = None) -> KeyLoads:
    """Run two jobs that add up `load`, by default 1 a row, for each key. They read only the columns they need.

    All keys are counted. The heaviest `LISTED_KEYS` come back one by one.
    """
    for name in key:
        if name not in rows.columns:
            hint = did_you_mean(name, rows.columns)
            raise ColumnError("there is no such column", where="key", got=name, hint=hint)
    columns = [sql.col(f"`{name}`") for name in key]
    each = sql.count(sql.lit(1)) if load is None else sql.sum(load)
    counted = rows.groupBy(*columns).agg(each.cast("double").alias(LOAD))
    hashed = counted.withColumns({BY_SPARK: sql.hash(*columns), BY_UNSKEW: sql.xxhash64(*columns)}).persist()
    try:
        top = hashed.orderBy(sql.desc(LOAD), BY_UNSKEW).limit(LISTED_KEYS).toArrow()
        residues = FINER * partitions
        places = [
            sql.pmod(sql.col(BY_SPARK), sql.lit(residues)).alias("residue"),
            sql.pmod(sql.col(BY_UNSKEW), sql.lit(DEFAULT_SLOTS)).alias("slot"),
        ]
        sums = hashed.select(LOAD, *places).groupingSets([["residue"], ["slot"]], "residue", "slot")
        added = sums.agg(sql.sum(LOAD).alias(LOAD), sql.count(sql.lit(1)).alias("keys")).toArrow()
    finally:
        hashed.unpersist()
    if not top.num_rows:
        hint = "check the source and the condition, or wait until there are rows"
        raise ArgumentError("there are no rows to give advice on", where="source", hint=hint)
    listed, spark_hashes, hashes = (top[name].to_numpy() for name in (LOAD, BY_SPARK, BY_UNSKEW))
    by_slot = added.filter(added["slot"].is_valid())
    by_residue = added.filter(added["residue"].is_valid())

    def rest(totals: pa.Table, place: str, size: int, own: np.ndarray) -> np.ndarray:
        everything = add_up(totals[LOAD].to_numpy(), totals[place].to_numpy(), size)
        return np.maximum(everything - add_up(listed, np.mod(own, size), size), 0.0)

    return KeyLoads(
        names=tuple(key_text(top.select(list(key))).to_pylist()),
        load=np.asarray(listed, np.float64),
        spark_hashes=np.asarray(spark_hashes, np.int64),
        hashes=np.asarray(hashes, np.int64),
        rest_by_residue=rest(by_residue, "residue", residues, spark_hashes.astype(np.int64)),
        rest_by_slot=rest(by_slot, "slot", DEFAULT_SLOTS, hashes),
        distinct_keys=int(by_slot["keys"].to_numpy().sum()),
    )
