"""Aggregates in queries of their own, by unskew or by Spark alone; meant to be killed and started again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import unskew
from chaos.ledger import RandomMoves
from unskew.spark.local_session import SHORT_RUN, session

SCHEMA = "key string, at timestamp, id long, value double, word string"
DELAY = "10 seconds"


def results() -> list[Any]:
    """Return what is asked of every group, the same of both sides."""
    return [
        sql.count("*").alias("n"),
        sql.count("value").alias("known"),
        sql.sum("id").alias("total"),
        sql.avg("id").alias("mean"),
        sql.sum(sql.expr("value * 2")).alias("twice"),
        sql.min("word").alias("least"),
        sql.max("value").alias("most"),
        sql.var_pop("value").alias("spread"),
        sql.stddev_samp("value").alias("deviation"),
        sql.min_by("word", "id").alias("first"),
        sql.max_by("value", "id").alias("last"),
    ]


def queries(events: DataFrame, side: str) -> dict[str, tuple[Any, str]]:
    """Return aggregates by name, and the output mode of each."""

    def grouped(rows: DataFrame, *by: Any) -> Any:
        if side == "native":
            return rows.groupBy(*by)
        moving = {"planner": RandomMoves(seed=len(by)), "min_gain": -np.inf} if side == "moving" else {}
        return unskew.balance(rows, *by, channels=3, **moving)

    timed = events.withWatermark("at", DELAY)
    return {
        "running": (grouped(events, "key").agg(*results()), "update"),
        "tumbling": (grouped(timed, "key", sql.window("at", "20 seconds")).agg(*results()), "update"),
        "sliding": (grouped(timed, "key", sql.window("at", "20 seconds", "10 seconds")).agg(*results()), "update"),
        "sessions": (grouped(timed, "key", sql.session_window("at", "3 seconds")).agg(*results()), "append"),
    }


def main(home: Path, side: str, names: list[str]) -> None:
    """Run queries to their end, one after the other; each batch becomes a folder."""
    spark = session("local[2,4]", {**SHORT_RUN, "spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"})
    for name in names:
        data, out = home / "data" / name, home / "out" / name
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(data))

        def write(rows: DataFrame, batch_id: int, out: Path = out) -> None:
            rows.write.mode("overwrite").parquet(str(out / f"batch_id={batch_id}"))

        rows, mode = queries(events, side)[name]
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", str(home / "checkpoints" / name))
        writer.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()
        print(f"{name} ENDED", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
