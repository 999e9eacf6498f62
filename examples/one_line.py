"""One line makes a stateful job a balanced one.

    python examples/one_line.py            # balanced by unskew
    python examples/one_line.py --native   # Spark alone

Both print the same totals at the end. The stream is skewed: a few users make up most of the rows.
"""

import argparse
from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

import unskew
from unskew.spark import register_workloads, session

OUTPUT = "user long, visits long, total double"
STATE = "visits long, total double"


def running_total(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Count a user's rows and add up their amounts, over all batches so far."""
    visits, total = state.get if state.exists else (0, 0.0)
    for frame in frames:
        visits += len(frame)
        total += float(frame["amount"].sum())
    state.update((visits, total))
    yield pd.DataFrame({"user": [key[0]], "visits": [visits], "total": [total]})


def grouped(events: DataFrame, native: bool) -> Any:
    """Group by user: the line that differs."""
    if native:
        return events.groupBy("user")
    return unskew.balance(events, key="user", channels=8, planner="mixed", tolerance=0.08)


def run(events: DataFrame, checkpoint: str, native: bool) -> dict[int, tuple[int, float]]:
    """Run the job on all rows there are; return what it knows of every user at the end."""
    totals: dict[int, tuple[int, float]] = {}

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        totals.update({row.user: (row.visits, row.total) for row in rows.collect()})

    query = (
        grouped(events, native)
        .applyInPandasWithState(running_total, OUTPUT, STATE, "update", "NoTimeout")
        .writeStream.outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(write_batch)
        .start()
    )
    query.awaitTermination()
    if not native:
        moved = len({batch for batch, _ in query.moves})
        print(f"{len(query.moves)} keys and slots changed their channel, in {moved} batches")
        print(query.loads.to_pandas().to_string(index=False))
    return totals


def main() -> None:
    """Run the example."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--native", action="store_true", help="Spark alone")
    options.add_argument("--batches", type=int, default=8)
    options.add_argument("--rows", type=int, default=20_000, help="per batch")
    given = options.parse_args()
    spark = session()
    register_workloads(spark)
    stream = spark.readStream.format("unskew").options(
        workload="zipf", exponent=1.0, keys=1000, batches=given.batches, rowsPerBatch=given.rows
    )
    events = stream.load().selectExpr("key as user", "cast(key % 7 as double) as amount")
    with TemporaryDirectory() as checkpoint:
        totals = run(events, checkpoint, given.native)
    for user in sorted(totals, key=lambda user: -totals[user][0])[:5]:
        print(f"user {user}: {totals[user][0]:,} visits, {totals[user][1]:,.0f} in all")
    spark.stop()


if __name__ == "__main__":
    main()
