"""Running a job under Spark alone and under unskew on the same files, and killing the workers that it runs in."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import native_jobs
import unskew
from chaos.ledger import RandomMoves
from native_jobs.case import Case

cloudpickle.register_pickle_by_value(native_jobs)  # Spark's workers do not know this folder

NATIVE_SETTINGS = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.shuffle.partitions": "1",  # so that Spark, too, yields the rows of a key in one order
}
TRIES = 10

Batches = dict[int, list[str]]


def stages(
    spark: SparkSession, folder: str, case: Case, schema: pa.Schema, job: Any = None
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return how to make a case's stream by Spark alone, and by unskew with other owners in every batch.

    `job` stands for the case's own one under unskew.
    """
    stream = spark.readStream.schema(from_arrow_schema(schema)).option("maxFilesPerTrigger", 1).parquet(folder)
    if case.watermark is not None:
        stream = stream.withWatermark("at", case.watermark)
    initial = None
    if case.initial is not None:
        initial = spark.createDataFrame(case.initial, "user string, amount long").groupBy("user")

    def natively() -> Any:
        return case.stage(stream.groupBy(*case.key), case.job, initial)

    def balanced() -> Any:
        settings: dict[str, Any] = {"channels": 3, "planner": RandomMoves(seed=1), "min_gain": -np.inf, "slots": 64}
        return case.stage(unskew.balance(stream, list(case.key), **settings), job or case.job, initial)

    return natively, balanced


@dataclass(eq=False)
class Kept:
    """What the batches of a query have yielded: rows as text, key by key, those of a key in the order they came in.

    The batches behind the last one with input become one where the clock makes them: Spark and unskew need not run the
    same number of them.
    """

    case: Case
    inputs: int  # batches with rows
    folder: Path | None = None  # where to write them, too; a batch that is written again must be the same
    hold: Callable[[int], None] = lambda batch_id: None
    batches: Batches = field(default_factory=dict)
    quiet: int = 0  # batches in a row with no output, behind the last one with input

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        found = [row.asDict() for row in rows.collect()]
        found.sort(key=lambda row: repr([row[name] for name in self.case.key if name in row] or row))
        self.keep(batch_id, [repr(row) for row in found])
        self.hold(batch_id)

    def keep(self, batch_id: int, found: list[str]) -> None:
        if self.folder is not None:
            path = self.folder / f"{batch_id}.json"
            if path.exists() and json.loads(path.read_text()) != found:
                raise AssertionError(f"{path} was written with other rows before")
            path.with_suffix(".new").write_text(json.dumps(found))
            path.with_suffix(".new").rename(path)
        self.batches[batch_id] = found
        self.quiet = 0 if found or batch_id < self.inputs else self.quiet + 1

    def output(self) -> Batches:
        """Return the batches that had output."""
        made: Batches = {}
        for batch_id, found in sorted(self.batches.items()):
            made.setdefault(min(batch_id, self.inputs) if self.case.by_the_clock else batch_id, []).extend(found)
        return {batch_id: found for batch_id, found in made.items() if found}


def run(stage: Any, checkpoint: Path, kept: Kept) -> Any:
    """Run a stream to the end of its input, and until nothing comes any more; return the query of the first start."""
    query = _start(stage, checkpoint, kept)
    while kept.case.by_the_clock and kept.quiet < 2:
        # under unskew, timers that come after the start are for the next one
        known = len(kept.batches)
        _start(stage, checkpoint, kept)
        if len(kept.batches) == known:
            break
    return query


def _start(stage: Any, checkpoint: Path, kept: Kept) -> Any:
    writer = stage.writeStream.outputMode(kept.case.output_mode).option("checkpointLocation", str(checkpoint))
    for left in reversed(range(TRIES)):
        query = writer.foreachBatch(kept).trigger(availableNow=True).start()
        try:
            while not query.awaitTermination(1):
                if kept.case.by_the_clock and kept.quiet >= 2:  # Spark alone would go on for ever
                    query.stop()
            break
        except StreamingQueryException as error:  # Spark gives its own worker ten seconds to start, on any machine
            if not left or "failed to connect back" not in str(error):
                raise
    return query


@dataclass(frozen=True)
class Calls:
    """Counts the calls of a job, in all workers, and tells the one that is `at`."""

    path: Path
    at: int

    def reached(self) -> bool:
        with self.path.open("ab") as counted:
            counted.write(b".")
            return counted.tell() == self.at

    def made(self) -> int:
        return self.path.stat().st_size


class Killed(Calls):
    """Kills the worker in one call."""

    def __call__(self) -> None:
        if self.reached():
            os.kill(os.getpid(), signal.SIGKILL)


class Held(Calls):
    """Holds the worker up in one call until somebody kills it."""

    def __call__(self) -> None:
        if self.reached():
            hold(self.path)


def hold(path: Path) -> None:
    """Say so in a file, and wait for the end."""
    path.with_suffix(".held").touch()
    while True:
        time.sleep(60)


def disturbed(case: Case, trouble: Calls) -> Any:
    """Return a case's job with something that happens in each call with rows."""
    if not case.is_processor:

        def function(key: Any, frames: Any, state: Any) -> Iterator[Any]:
            trouble()  # type: ignore[operator]
            return case.job(key, frames, state)

        return function

    class Disturbed(case.job):
        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            trouble()  # type: ignore[operator]
            return super().handleInputRows(key, rows, timerValues)

    return Disturbed


def calls(case: Case, tables: list[pa.Table]) -> int:
    """Return how many calls with rows a job has, if none is late."""
    return sum(table.select(list(case.key)).group_by(list(case.key)).aggregate([]).num_rows for table in tables)
