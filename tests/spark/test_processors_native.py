"""The same stateful processors on the same rows under Spark alone and under unskew, batch by batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import unskew
from unskew.testing import write_batches

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "exactness"))

import processors
from job import RandomMoves
from processors import CASES, Case

pytestmark = pytest.mark.spark

cloudpickle.register_pickle_by_value(processors)  # Spark's workers do not know this folder

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
TRIES = 10
QUICK = ("stock, a map", "alarms, by row")

Batches = dict[int, list[tuple[Any, ...]]]


@pytest.fixture(scope="module")
def rocksdb(spark: SparkSession) -> Iterator[SparkSession]:
    """Give a session whose native queries may have stateful processors, in another time zone than the machine's."""
    wanted = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "America/New_York",
    }
    before = {name: spark.conf.get(name) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield spark
    for name, value in before.items():
        spark.conf.set(name, str(value))


def run(stream: Any, checkpoint: Path, mode: str, most: int) -> tuple[Batches, Any]:
    """Run to the end of the input; return the rows of every batch that had any, sorted, and the query.

    Spark never ends a query with timers in processing time: it is stopped after `most` batches.
    """
    batches: Batches = {}

    def keep(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted((tuple(row) for row in rows.collect()), key=repr)

    writer = stream.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint)).foreachBatch(keep)
    for left in reversed(range(TRIES)):
        query = writer.trigger(availableNow=True).start()
        try:
            while not query.awaitTermination(1):
                if len(batches) >= most:
                    query.stop()
            break
        except StreamingQueryException as error:  # Spark gives its own worker ten seconds to start, on any machine
            if not left or "failed to connect back" not in str(error):
                raise
    return {batch: rows for batch, rows in batches.items() if rows}, query


def compare(spark: SparkSession, home: Path, case: Case) -> tuple[Batches, Batches, Any]:
    """Run a case under Spark alone and under unskew, which moves keys in every batch."""
    tables = case.batches()
    schema = from_arrow_schema(tables[0].schema)
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = files.parquet(write_batches(home / "rows", tables))
    if case.watermark is not None:
        stream = stream.withWatermark("at", case.watermark)
    settings: dict[str, Any] = {"channels": 3, "planner": RandomMoves(seed=1), "min_gain": -np.inf, "slots": 64}
    most = len(tables) if case.time_mode == "ProcessingTime" else 1_000
    results = []
    for name, grouped in (("native", stream.groupBy("user")), ("ours", unskew.balance(stream, "user", **settings))):
        method: Any = grouped.transformWithState if case.by_row else grouped.transformWithStateInPandas
        initial = None
        if case.initial is not None:
            initial = spark.createDataFrame(case.initial, "user string, amount long").groupBy("user")
        made = method(
            statefulProcessor=case.processor(),
            outputStructType=case.output,
            outputMode=case.output_mode,
            timeMode=case.time_mode,
            initialState=initial,
            eventTimeColumnName=case.event_time,
        )
        results.append(run(made, home / name, case.output_mode, most))
    (native, _), (ours, query) = results
    native, ours = ({batch: rows for batch, rows in each.items() if batch < most} for each in (native, ours))
    return native, ours, query


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_processor_gives_the_same_rows_natively_and_balanced(
    rocksdb: SparkSession, tmp_path: Path, name: str
) -> None:
    native, ours, query = compare(rocksdb, tmp_path, CASES[name])
    assert len(native) >= 4 and sum(map(len, native.values())) >= 4
    assert ours == native
    assert query.moves or name == "odd types"
