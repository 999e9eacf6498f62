"""A balanced query as somebody would submit it; run as a script: MASTER DATA CHECKPOINT OUT [NAME=SETTING ...]."""

from __future__ import annotations

import json
import sys

import unskew
from unskew.spark import session


def main(master: str, data: str, checkpoint: str, out: str, *settings: str) -> None:
    config = {"spark.executor.memory": "600m", "spark.driver.memory": "700m", "spark.task.maxFailures": "4"}
    config |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    spark = session(master, config | dict(setting.split("=", 1) for setting in settings))
    events = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1).parquet(data)
    balanced = unskew.balance(events, "key", channels=3, tolerance=0.0, min_gain=0.0).aggregate(n="count")
    writer = balanced.writeStream.option("checkpointLocation", checkpoint).format("json")
    query = writer.trigger(availableNow=True).start(out)
    query.awaitTermination()
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    print(json.dumps({"moves": len(query.moves), "batches": len(query.figures), "hosts_of_blocks": executors}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
