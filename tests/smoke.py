"""A first job, which `test_package` runs where nothing but the product is installed, compared with a plain count."""

import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F

import unskew
from unskew.spark import session
from unskew.testing import write_batches


def count(key, frames, state):
    """Count the rows of a user, as a function for applyInPandasWithState."""
    rows = sum(map(len, frames)) + (state.get[0] if state.exists else 0)
    state.update((rows,))
    yield pd.DataFrame({"user": [key[0]], "rows": [rows]})


def main(home: Path) -> None:
    """Run a function per key and an aggregate over the same stream; fail if either differs from a plain count."""
    users = [f"u{i * i % 7}" for i in range(300)]
    write_batches(home / "data", [pa.table({"user": users[at : at + 100]}) for at in range(0, 300, 100)])
    spark = session(config={"spark.ui.enabled": "false"})
    events = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1).parquet(str(home / "data"))
    counted = unskew.balance(events, "user", channels=2).applyInPandasWithState(
        count, "user string, rows long", "rows long", "update", "NoTimeout"
    )
    summed = unskew.balance(events, "user", channels=2).agg(F.count("*").alias("rows"))
    for name, stage in {"function": counted, "aggregate": summed}.items():
        last: dict[str, int] = {}

        def keep(rows, _batch_id, last=last):
            last.update({row.user: row.rows for row in rows.collect()})

        writer = stage.writeStream.option("checkpointLocation", str(home / name)).outputMode("update")
        writer.foreachBatch(keep).trigger(availableNow=True).start().awaitTermination()
        assert last == Counter(users), (name, last)
    assert unskew.read_state(spark, str(home / "function")).count() == len(set(users))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
