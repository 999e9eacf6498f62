"""A balanced job whose owners change at every batch; meant to be killed and started again until it ends by itself."""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import unskew
from chaos.ledger import Ledger, RandomMoves
from unskew.operators import Aggregate
from unskew.planners import Planner
from unskew.spark.local_session import SHORT_RUN, session
from unskew.spark.query import BalancedQuery


def second_stage(spark: SparkSession, home: Path, planner: Planner | str) -> None:
    """Count what the first stage has written of each key, and the greatest of its counts."""
    written = unskew.read_committed(
        spark, str(home / "out"), "key string, rows long", checkpoint=str(home / "checkpoint")
    )
    balanced = unskew.balance(written, "key", channels=3, planner=planner, min_gain=-np.inf, slots=64)
    stage = balanced.aggregate(times="count", most="max(rows)")
    writer = stage.writeStream.option("checkpointLocation", str(home / "second-checkpoint")).format("parquet")
    writer.trigger(availableNow=True).start(str(home / "second-out")).awaitTermination()


def main() -> None:
    """Run the job to its end."""
    options = argparse.ArgumentParser()
    options.add_argument("home", type=Path)
    options.add_argument("--master", default="local[2,4]")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--planner", default="random")
    options.add_argument("--shuffle", action="store_true")
    options.add_argument("--resize", action="store_true", help="another number of channels now and then")
    options.add_argument("--channels", type=int, nargs="+", help="the number to wish for in each batch, in place of 4")
    options.add_argument("--memory", type=int, nargs=4, help="bytes of state that each channel may hold")
    options.add_argument("--split", action="store_true", help="aggregates with split keys, in place of chains")
    options.add_argument("--pipeline", action="store_true", help="two inputs, and a second stage behind the first")
    options.add_argument("--gap", type=float, default=0.0, help="seconds that the fifth batch's sink waits")
    given = options.parse_args()
    memory = {"spark.driver.memory": "1g", "spark.executor.memory": "1g"}
    spark = session(master=given.master, config={**SHORT_RUN, **memory})
    schema = "key string, source long, sequence long"
    files = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    events = files.parquet(str(given.home / "data"))
    if given.pipeline:
        both = unskew.tagged("key", a=events, b=files.parquet(str(given.home / "more-data")))
        columns = [F.coalesce(f"a_{name}", f"b_{name}").alias(name) for name in ("source", "sequence")]
        events = both.select("key", *columns)
    if given.shuffle:
        events = events.repartition(3)
    planner = RandomMoves(seed=given.seed) if given.planner == "random" else given.planner
    gain = -np.inf if given.planner == "random" else 0.0
    channels = 2 if given.resize and not given.split else 4
    wishes = given.channels or [channels]
    balanced = unskew.balance(
        events,
        "key",
        channels=wishes[0],
        planner=planner,
        min_gain=gain,
        slots=64,
        tracked_keys=50,
        split="auto" if given.split else None,
        memory_bytes=given.memory,
    )
    totals = Aggregate(rows="count", total="sum(sequence)", latest="max(source)")
    stage = balanced.apply(totals if given.split else Ledger())
    out = str(given.home / "out")

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/batch_id={batch_id}")
        if running and running[0].routing_table.split:
            (given.home / "split").touch()
        if running and running[0].moves:
            (given.home / "moved").touch()
        if batch_id == 4:
            time.sleep(given.gap)  # Spark ends Python workers that are idle for a minute
        if given.resize and running and (not given.split or batch_id % 4 == 3):  # between two resizes keys are split
            running[0].resize(random.Random(given.seed + batch_id).randint(1, 4))
        if given.channels and running:
            with (given.home / "channels").open("a") as used:
                used.write(f"{running[0].routing_table.channels}\n")
            running[0].resize(wishes[min(batch_id, len(wishes) - 1)])

    writer = stage.writeStream.option("checkpointLocation", str(given.home / "checkpoint"))
    running: list[BalancedQuery] = []
    query = writer.foreachBatch(write).trigger(availableNow=True).start()
    running.append(query)
    query.awaitTermination()
    if given.pipeline:
        second_stage(spark, given.home, planner)
    print(f"ENDED with {len(query.moves)} moves and {len(query.routing_table.split)} split keys in this run")


if __name__ == "__main__":
    main()
