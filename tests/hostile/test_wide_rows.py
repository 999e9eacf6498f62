"""Rows of a megabyte, in a JVM with less memory than the batch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

JOB = """
import sys
import pandas as pd
import unskew
from pyspark.sql import SparkSession

folder = sys.argv[1]
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1500m")
    .config("spark.driver.extraJavaOptions", "-XX:MaxDirectMemorySize=400m")
    .config("spark.sql.files.maxPartitionBytes", "1g")
    .getOrCreate()
)

def letters(key, frames, state):
    yield pd.DataFrame({"key": key, "letters": [sum(int(frame.text.str.len().sum()) for frame in frames)]})

rows = spark.readStream.schema("key long, text string").parquet(f"{folder}/in")
query = (
    unskew.balance(rows, "key", channels=4)
    .applyInPandasWithState(letters, "key long, letters long", "n long", "append", "NoTimeout")
    .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
    .start(f"{folder}/out", format="parquet")
)
query.awaitTermination()
print(spark.read.parquet(f"{folder}/out").selectExpr("count(*)", "sum(letters)").first()[:])
"""


@pytest.mark.slow
def test_a_batch_of_megabyte_rows_that_is_larger_than_the_direct_memory(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for file in range(2):
        numbers = range(file * 400, file * 400 + 400)
        texts = [os.urandom(500_000).hex() for _ in numbers]
        table = pa.table({"key": [number % 7 for number in numbers], "text": texts})
        pq.write_table(table, tmp_path / "in" / f"{file}.parquet", row_group_size=20, compression="none")
    job = tmp_path / "job.py"
    job.write_text(JOB)
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, job, tmp_path], capture_output=True, text=True, timeout=300, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "(7, 800000000)"
