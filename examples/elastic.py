"""Channels that follow the load: a stream whose rows triple for a while, under ``channels="auto"``.

    python examples/elastic.py elastic.png

Every row costs two milliseconds of waiting, as a call to a service would. Prints a line per batch, and draws the rows,
the time of each batch and the channels in use. Takes five minutes.
"""

import sys
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt

import unskew
from unskew.spark import session
from unskew.testing import write_batches

ROWS, TRIGGER_SECONDS = 3000, 10
LOAD = [1] * 9 + [3] * 9 + [1] * 8


def call_a_service(key: tuple[Any, ...], rows: Any, state: tuple[Any, ...] | None) -> Any:
    """Wait two milliseconds for every row, and count them."""
    n = (state or (0,))[0] + len(rows["value"])
    time.sleep(0.002 * len(rows["value"]))
    return (n,), (key[0], n)


def main() -> None:
    """Run the stream and draw what happened."""
    rng = np.random.default_rng(0)
    spark = session(master="local[10]")
    with TemporaryDirectory() as home:
        keys = [rng.zipf(1.2, ROWS * times) % 5000 for times in LOAD]
        data = write_batches(f"{home}/data", [pa.table({"user": each, "value": np.ones(len(each))}) for each in keys])
        events = spark.readStream.schema("user long, value double").option("maxFilesPerTrigger", 1).parquet(data)
        query = (
            unskew.balance(events, "user", channels="auto")
            .apply_per_key(call_a_service, "user long, n long", "n long")
            .writeStream.option("checkpointLocation", f"{home}/checkpoint")
            .trigger(processingTime=f"{TRIGGER_SECONDS} seconds")
            .format("noop")
            .start()
        )
        history: dict[int, tuple[int, int, float]] = {}
        while len(history) < len(LOAD) and query.isActive:
            time.sleep(0.5)
            for progress in query.recentProgress:
                if progress.numInputRows and progress.batchId not in history:
                    seconds = progress.durationMs["triggerExecution"] / 1e3
                    history[progress.batchId] = progress.numInputRows, progress["unskew"]["channels"], seconds
                    rows, channels, _ = history[progress.batchId]
                    print(f"batch {progress.batchId:3}: {rows:6,} rows, {channels:2} channels, {seconds:5.1f} s")
        query.stop()
    spark.stop()
    if len(sys.argv) > 1:
        draw(np.array([history[batch] for batch in sorted(history)]), sys.argv[1])


def draw(history: Any, path: str) -> None:
    """Draw rows, seconds and channels over the batches."""
    figure, plots = plt.subplots(3, sharex=True, figsize=(7, 5), layout="constrained")
    for plot, column, name in zip(plots, (0, 2, 1), ("rows", "seconds", "channels"), strict=True):
        plot.step(range(len(history)), history[:, column], where="mid")
        plot.set_ylabel(name)
        plot.set_ylim(bottom=0)
    plots[1].axhline(TRIGGER_SECONDS, color="grey", linestyle="--", linewidth=1)
    plots[2].set_xlabel("batch; dashed: the trigger's interval")
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
