"""A balanced query on three executors whose channels have homes, or not: ``FOLDER homes|anywhere``; prints figures."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

import unskew
from unskew.runtime import tasks, ways
from unskew.spark import session, writer
from unskew.spark.anchors import Anchors
from unskew.spark.plans import session_cores
from unskew.testing import write_batches

sys.path.insert(0, str(Path(__file__).parents[2]))

from chaos.processes import kill_one

EXECUTORS, IDLE_SECONDS, PATIENCE_SECONDS = 3, 30.0, 300


def keys(batch_id: int) -> np.ndarray:
    return np.random.default_rng(batch_id).zipf(1.4, 2000) % 200


def main(folder: Path, mode: str) -> None:
    tasks.SECONDS_PER_TASK = 1e-9  # every batch is worth a task for every core
    ways.WORTH_BYTES = -1  # and all state a home
    writer.Anchors = partial(Anchors, IDLE_SECONDS)
    if mode == "anywhere":
        writer.on_cluster = lambda spark: False
    config = {"spark.executor.memory": "600m", "spark.driver.memory": "700m", "spark.task.maxFailures": "4"}
    spark = session(f"local-cluster[{EXECUTORS},1,700]", config)
    wait_until(lambda: session_cores(spark) == EXECUTORS)
    data = folder / "data"
    data.mkdir()
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(str(data))
    balanced = unskew.balance(events, "key", channels=EXECUTORS, min_gain=-1.0).aggregate(n="count")
    stream = balanced.writeStream.option("checkpointLocation", str(folder / "checkpoint")).format("json")
    query, story, written = stream.start(str(folder / "out")), {}, 0

    def feed(chapter: str, batches: int) -> None:
        nonlocal written
        write_batches(data, [pa.table({"key": keys(written + each)}) for each in range(batches)], first=written)
        query.processAllAvailable()
        written += batches
        story[chapter] = [[figures.homes, *figures.channel_found] for figures in query.figures[-batches:]]

    feed("first", 1)
    feed("then", 6)
    if mode == "homes":
        story["cached"] = cached(spark)
        wait_until(lambda: cached(spark) == 0)
        feed("after a rest", 2)
        story["killed"] = kill_one(os.getpid(), "executor", random.Random(0)) is not None
        feed("after a kill", 3)
        wait_until(lambda: session_cores(spark) == EXECUTORS)
        feed("complete again", 1)
        feed("at last", 3)
    query.stop()
    print(json.dumps(story))
    spark.stop()


def cached(spark) -> int:
    return spark.sparkContext._jsc.sc().getPersistentRDDs().size()


def wait_until(so: Callable[[], bool]) -> None:
    patience_ends = time.monotonic() + PATIENCE_SECONDS
    while not so():
        assert time.monotonic() < patience_ends
        time.sleep(0.1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
