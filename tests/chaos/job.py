"""The driver program that is struck: ``python job.py HOME`` runs the query of HOME/round.json until its rows end."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from pyspark.sql import DataFrame

from chaos.phases import Teller
from chaos.queries import QUERIES, SCHEMA
from chaos.stores import own_files_on_s3
from unskew.spark.local_session import SHORT_RUN, session
from unskew.spark.query import BalancedQuery


def main(home: Path) -> None:
    plan = json.loads((home / "round.json").read_text())
    Teller(home).install()
    if plan["s3"]:
        own_files_on_s3(plan["s3"])
    memory = {"spark.driver.memory": "700m", "spark.executor.memory": "700m"}
    spark = session(plan["master"], {**SHORT_RUN, **memory, "spark.sql.shuffle.partitions": "2"})
    query, data = QUERIES[plan["query"]], str(home / "data")
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(data)
    out, running = str(home / "out"), list[BalancedQuery]()

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.write.mode("overwrite").parquet(f"{out}/batch_id={batch_id}")
        if plan["resize"] and running and batch_id % 3 == 2:
            running[0].resize(random.Random(plan["seed"] + batch_id).randint(1, 6))

    writer = query.balanced(events, plan["seed"]).writeStream.trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(home / "checkpoint"))
    writer = writer.format("parquet") if plan["sink"] == "files" else writer.foreachBatch(write)
    running.append(writer.start(out) if plan["sink"] == "files" else writer.start())
    running[0].awaitTermination()
    rows = spark.read.schema(SCHEMA).parquet(data).where(f"sequence >= 0 AND ({query.kept})")
    query.native(rows).coalesce(1).write.mode("overwrite").parquet(str(home / "native"))
    print("ENDED", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
