"""The queries of the soak: keys that drift, come and go; and whether every row was counted exactly once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.errors import StateError
from unskew.runtime.figures import BatchFigures
from unskew.runtime.log import RecordLog
from unskew.spark.query import BalancedQuery
from unskew.spark.writer import OWN_FOLDER
from unskew.state.files import Files

ROWS = 1000  # of a batch
BATCH_MS = 1000  # by which event time advances in a batch
QUIET_MS = 20_000  # a key without rows for so long is put out and forgotten
LIVE_KEYS = 1000
SHIFTED, EVERY = 37, 6  # keys become hotter by so many ranks every so many batches; the hottest ones end
# the rank of a row's key is drawn by Zipf 1.0 from the row's number
RANK = f"floor(pow({LIVE_KEYS}, (pmod(xxhash64(value), 1000000) + 0.5) / 1000000))"
KEY = f"concat('k', {RANK} + {SHIFTED} * (value div {EVERY * ROWS})) AS key"
TIME = f"timestamp_millis({BATCH_MS} * (1 + value div {ROWS})) AS ts"  # a row at 0 is late for the first watermark, 0
WINDOW = "10 seconds"
FUNCTION, WINDOWS = "function", "windows"


def drifting(spark: SparkSession) -> DataFrame:
    """Return an endless stream: 1,000 rows in every batch, as fast as batches end."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
    rows = source.option("startTimestamp", 0).option("advanceMillisPerBatch", BATCH_MS).load()
    return rows.selectExpr(KEY, TIME, "value").withWatermark("ts", "0 seconds")


def count_until_quiet(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count and add up the rows of a key; put both out and forget the key when it has been quiet."""
    n, total = state.get if state.exists else (0, 0)
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"key": [key[0]], "n": [n], "total": [total]})
        return
    latest = 0
    for frame in frames:
        n, total = n + len(frame), total + int(frame["value"].sum())
        latest = int(frame["ts"].max().timestamp() * 1000)
    state.update((n, total))
    state.setTimeoutTimestamp(latest + QUIET_MS)


class Soaked:
    """A query that runs until it is stopped; its output goes to a file."""

    def __init__(self, spark: SparkSession, home: Path, name: str) -> None:
        self.name, self.checkpoint, self.output = name, home / name, home / f"{name}.arrow"
        self._spark = spark
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None
        # every batch is counted and planned, so all of the runtime runs
        balanced = unskew.balance(drifting(spark), "key", channels=4, min_gain=-1.0)
        if name == FUNCTION:
            schemas = ("key string, n long, total long", "n long, total long")
            stage = balanced.applyInPandasWithState(count_until_quiet, *schemas, "append", "EventTimeTimeout")
        else:
            grouped = unskew.balance(drifting(spark), "key", sql.window("ts", WINDOW), channels=4)
            stage = grouped.agg(sql.count("*").alias("n"), sql.sum("value").alias("total"))
        writer = stage.writeStream.queryName(name).option("checkpointLocation", str(self.checkpoint))
        self._ready = writer.foreachBatch(self._take)
        self.query: BalancedQuery = self._ready.start()

    @property
    def batches(self) -> list[BatchFigures]:
        """The figures of its latest batches; raises what the query has failed with."""
        failure = self.query.exception()
        found = self.query.figures
        if failure is not None and (found or "failed to connect back" not in str(failure)):
            raise failure
        if failure is not None:  # Spark gives a Python process ten seconds to start, which a busy machine may not have
            self.query = self._ready.start()
        return found

    def _take(self, rows: DataFrame, batch_id: int) -> None:
        table = rows.withColumn("batch", sql.lit(batch_id)).toArrow()
        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self.output), table.schema)
        self._writer.write_table(table)

    def check(self) -> int:
        """Stop, and insist that every row was counted exactly once; return how many rows there were.

        The stop may come when a batch has reached the sink and is not committed: it would come again, and is left out.
        """
        self.query.stop()
        _, committed = RecordLog(Files(str(self.checkpoint / OWN_FOLDER))).last()
        batches = committed + 1
        if self._writer is not None:
            self._writer.close()
        output = self._spark.createDataFrame(pa.ipc.open_stream(str(self.output)).read_all())
        emitted = output.where(sql.col("batch") < batches).drop("batch")
        rows = self._spark.range(batches * ROWS).withColumnRenamed("id", "value").selectExpr(KEY, TIME, "value")
        if self.name == FUNCTION:  # a key may have been quiet several times; the rest is held
            held = unskew.read_state(self._spark, str(self.checkpoint)).select("key", "state.n", "state.total")
            ours = emitted.unionByName(held).groupBy("key").agg(sql.sum("n"), sql.sum("total"))
            truth = rows.groupBy("key").agg(sql.count("*"), sql.sum("value"))
        else:  # windows up to the last one that has closed
            ends = emitted.agg(sql.max("window.end")).collect()[0][0]
            ours = emitted.select("key", "window", "n", "total")
            truth = rows.groupBy("key", sql.window("ts", WINDOW)).agg(sql.count("*"), sql.sum("value"))
            truth = truth.where(sql.col("window.end") <= ends)
        wrong = ours.exceptAll(truth).count() + truth.exceptAll(ours).count()
        if wrong:
            raise StateError(f"{wrong:,} results are not those of the rows", where=self.name)
        return batches * ROWS
