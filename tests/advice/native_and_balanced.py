"""Runs one function per key under Spark alone, with an event log, and then balanced; prints what batches took.

A process of its own: it needs eight cores that wait, and an event log from the start of Spark.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

from unskew import balance
from unskew.spark import session

CHANNELS, ROWS, BATCHES = 8, 4000, 4
SECONDS_PER_ROW = 0.01


def wait(key, frames, state):
    seen = state.get[0] if state.exists else 0
    for frame in frames:
        time.sleep(SECONDS_PER_ROW * len(frame))
        seen += len(frame)
    state.update((seen,))
    yield pd.DataFrame({"user": [key[0]], "n": [seen]})


def run(rows, checkpoint: Path) -> list[float]:
    """Return what each batch took, in seconds; the first one, in which Python starts, is left out."""
    counts = rows.applyInPandasWithState(wait, "user string, n long", "n long", "update", "NoTimeout")
    writer = counts.writeStream.outputMode("update").foreachBatch(
        lambda batch, _: batch.write.format("noop").mode("overwrite").save()
    )
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [json.loads(each.json) if hasattr(each, "json") else each for each in query.recentProgress]
    taken = [each["durationMs"]["triggerExecution"] / 1000 for each in progress if each["numInputRows"]]
    return taken[1:]


def main(folder: Path) -> None:
    random = np.random.default_rng(1)
    (folder / "in").mkdir()
    (folder / "log").mkdir()
    for batch in range(BATCHES):
        others = np.char.add("user", random.integers(0, 400, ROWS).astype(str))
        users = np.where(random.random(ROWS) < 0.12, "ada", others)
        pd.DataFrame({"user": users}).to_parquet(folder / "in" / f"{batch}.parquet")
    log = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": (folder / "log").as_uri()}
    spark = session(f"local[{CHANNELS}]", {**log, "spark.sql.shuffle.partitions": str(CHANNELS)})
    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    native = run(events.groupBy("user"), folder / "native")
    balanced = run(balance(events, "user"), folder / "balanced")
    spark.stop()
    print(json.dumps({"native": native, "balanced": balanced}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
