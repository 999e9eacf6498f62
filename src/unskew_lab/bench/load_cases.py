"""Extreme loads, one by one: each gives Spark's own result, or stops with an error that says what to do."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

import unskew
from unskew.errors import StateError
from unskew.hashing import hash_keys
from unskew.routing.table import DEFAULT_SLOTS, RoutingTable
from unskew.testing import write_batches
from unskew_lab.bench.count_and_sum import OUTPUT, STATE, lean_count_and_sum
from unskew_lab.bench.streams import SCHEMA, read_files

MEGABYTE = 1 << 20
SKEWED = "concat('k', floor(pow({keys}, (pmod(xxhash64(id), 1000000) + 0.5) / 1000000))) AS key"
VALUE = "cast(id % 100 AS double) AS value"
SUMS = ("count(*) AS n", "sum(value) AS total")


@dataclass
class Run:
    """Where a case runs, and how large it is."""

    spark: SparkSession
    home: Path
    scale: float = 1.0
    batch_rows: list[int] = field(default_factory=list)  # the rows of every batch with any
    seconds: float = 0.0  # in queries, without writing the input and computing the truth

    def size(self, whole: int) -> int:
        return max(int(whole * self.scale), 1)

    def write(self, name: str, rows: int, *columns: str, group_bytes: int = 128 * MEGABYTE) -> Path:
        """Write rows with a column ``id`` to a Parquet file, in row groups of a size."""
        folder = self.home / name
        writer = self.spark.range(0, rows, 1, 1).selectExpr(*columns).write
        writer.option("parquet.block.size", group_bytes).parquet(str(folder))
        return folder

    def finish(self, stage: Any, checkpoint: str = "checkpoint", during: Callable[[Any], None] | None = None) -> Any:
        """Run a query to its end, or until `during` returns; its output goes to ``output/BATCH``."""

        def keep(rows: DataFrame, batch_id: int) -> None:
            rows.write.mode("overwrite").parquet(str(self.home / "output" / f"batch={batch_id}"))

        began = time.perf_counter()
        writer = stage.writeStream.option("checkpointLocation", str(self.home / checkpoint)).foreachBatch(keep)
        query = (writer if during is not None else writer.trigger(availableNow=True)).start()
        if during is None:
            query.awaitTermination()
        else:
            during(query)
            query.stop()
        self.seconds += time.perf_counter() - began
        self.batch_rows = [each.rows for each in query.figures if each.rows]  # those of earlier starts, too
        return query

    def last_of_each_key(self) -> DataFrame:
        """Return the last row that was put out for every key."""
        rows = self.spark.read.parquet(str(self.home / "output"))
        fields = [name for name in rows.columns if name not in ("key", "batch")]
        return rows.groupBy("key").agg(*(sql.max_by(name, "batch").alias(name) for name in fields))

    def insist(self, ours: DataFrame, truth: DataFrame) -> None:
        """Raise unless both frames have the same rows: as many, and the same sum of hashes."""
        columns = [sql.expr("count(*)"), sql.expr(f"sum(cast(xxhash64({', '.join(truth.columns)}) AS decimal(38)))")]
        found, wanted = (tuple(frame.select(*truth.columns).agg(*columns).first() or ()) for frame in (ours, truth))
        if found != wanted:
            raise StateError("the result is not Spark's own", got=found, hint=f"it should be {wanted}")


def sums(rows: DataFrame) -> DataFrame:
    """Return Spark's own count and sum of every key."""
    return rows.groupBy("key").agg(*(sql.expr(each) for each in SUMS))


def faster_than_the_job(run: Run) -> str:
    """A file comes every tenth of a second, and a batch takes longer: every batch stays one file, and none is lost."""
    files, rows, folder = run.size(60), 20_000, run.home / "input"
    source = run.spark.range(files * rows).selectExpr(SKEWED.format(keys=2000), VALUE).toArrow()
    write_batches(folder, [source.slice(0, rows)])

    def keep_writing() -> None:
        for number in range(1, files):
            write_batches(folder, [source.slice(number * rows, rows)], first=number)
            time.sleep(0.1)

    writer, most_waiting = threading.Thread(target=keep_writing), [0]

    def watch(query: Any) -> None:
        writer.start()
        while not query.figures or sum(each.rows for each in query.figures) < files * rows:
            if query.exception() is not None:
                raise query.exception()
            done = len([each for each in query.figures if each.rows])
            most_waiting[0] = max(most_waiting[0], len(list(folder.glob("*.parquet"))) - done)
            time.sleep(0.2)

    balanced = unskew.balance(read_files(run.spark, folder), "key", channels=4)
    run.finish(balanced.apply_per_key(lean_count_and_sum, OUTPUT, STATE), during=watch)
    run.insist(run.last_of_each_key(), sums(run.spark.read.schema(SCHEMA).parquet(str(folder))))
    if max(run.batch_rows) > rows:
        raise StateError("a batch is larger than maxFilesPerTrigger allows", got=max(run.batch_rows))
    return f"up to {most_waiting[0]} files waited, and no batch had more than one"


def ten_million_rows(run: Run) -> str:
    """One batch, a function per key, counted and planned."""
    rows = run.size(10_000_000)
    folder = run.write("input", rows, SKEWED.format(keys=max(rows // 100, 10)), VALUE)
    balanced = unskew.balance(read_files(run.spark, folder), "key", channels=8)
    run.finish(balanced.apply_per_key(lean_count_and_sum, OUTPUT, STATE))
    run.insist(run.last_of_each_key(), sums(run.spark.read.parquet(str(folder))))
    return "a function per key"


def ten_million_keys(run: Run) -> str:
    """Every row of the first batch is a new key; a small batch follows."""
    keys = run.size(10_000_000)
    folder = run.write("input", keys, "concat('k', id) AS key", VALUE)
    few = run.spark.range(min(1000, keys)).selectExpr("concat('k', 7 * id) AS key", VALUE).toArrow()
    write_batches(folder, [few], first=1)
    balanced = unskew.balance(read_files(run.spark, folder), "key", channels=8)
    run.finish(balanced.agg(*(sql.expr(each) for each in SUMS)))
    run.insist(run.last_of_each_key(), sums(run.spark.read.parquet(str(folder))))
    return "count and sum"


def describe_large(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Keep how many bytes a key has had, and their checksum."""
    size, check = state.get if state.exists else (0, 0)
    for frame in frames:
        for value in frame["value"]:
            size, check = size + len(value), (check + zlib.crc32(value.encode())) & 0x7FFFFFFF
    state.update((size, check))
    yield pd.DataFrame({"key": [key[0]], "size": [size], "sum": [check]})


def rows_of_a_megabyte(run: Run) -> str:
    """A batch with strings of a megabyte each, 1 GB together.

    Spark's reader holds up to 4,096 rows of a row group at once, whatever their size, so row groups are small.
    """
    rows = run.size(1000)
    columns = (f"concat('k', id % {max(rows // 10, 1)}) AS key", "repeat(md5(cast(id AS string)), 32768) AS value")
    folder = run.write("input", rows, *columns, group_bytes=16 * MEGABYTE)
    schema = "key string, value string"
    balanced = unskew.balance(read_files(run.spark, folder, schema), "key", channels=4)
    fields = "size long, sum long"
    run.finish(balanced.applyInPandasWithState(describe_large, f"key string, {fields}", fields, "update", "NoTimeout"))
    truth = run.spark.read.parquet(str(folder)).groupBy("key")
    checks = "sum(crc32(value)) & 2147483647 AS sum"
    run.insist(run.last_of_each_key(), truth.agg(sql.expr("sum(length(value)) AS size"), sql.expr(checks)))
    return "a function per key"


def hoard(key: tuple[str], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Keep all bytes that a key has had: as many of its letter as `value` says."""
    held = state.get[0] if state.exists else b""
    for frame in frames:
        for value in frame["value"]:
            held += key[0].encode() * int(value)
    state.update((held,))
    yield pd.DataFrame({"key": [key[0]], "size": [len(held)], "sum": [zlib.crc32(held)]})


def state_of_100_megabytes(run: Run) -> str:
    """One key of 20 grows to 100 MB in five batches, and moves because its channel goes when the query is resized."""
    step, letters = run.size(20 * MEGABYTE), list("abcdefghijklmnopqrst")
    channels = RoutingTable.initial(4, DEFAULT_SLOTS).lookup(hash_keys(pa.table({"key": letters}), "key"))
    large = int(np.argmax(channels == 3))
    sizes = [step if at == large else step // 1000 for at in range(len(letters))]
    batch = pd.DataFrame({"key": letters, "value": [float(size) for size in sizes]})
    write_batches(run.home / "input", [pa.Table.from_pandas(batch)] * 5)
    fields = "size long, sum long"

    def start(channels: int) -> Any:
        rows = read_files(run.spark, run.home / "input")
        balanced = unskew.balance(rows, "key", channels=channels, min_gain=-1.0, max_move_bytes=1 << 30)
        return run.finish(
            balanced.applyInPandasWithState(hoard, f"key string, {fields}", "held binary", "update", "NoTimeout")
        )

    query = start(4)
    query.resize(3)
    write_batches(run.home / "input", [pa.Table.from_pandas(batch)], first=5)
    query = start(4)
    whole = {letter: letter.encode() * (6 * size) for letter, size in zip(letters, sizes, strict=True)}
    known = [(letter, len(held), zlib.crc32(held)) for letter, held in whole.items()]
    truth = run.spark.createDataFrame(known, f"key string, {fields}")
    run.insist(run.last_of_each_key(), truth)
    held = unskew.read_state(run.spark, str(run.home / "checkpoint"))
    run.insist(held.selectExpr("key", "cast(length(state.held) AS long) AS size", "crc32(state.held) AS sum"), truth)
    moved = sum(each.moved_bytes for each in query.figures)
    if moved < 5 * step:
        raise StateError("the large key has not moved", got=moved)
    return f"a function per key; {moved / 1e6:,.0f} MB of state moved"


def thousand_channels(run: Run) -> str:
    """Four batches on 1,000 channels, every one counted and planned."""
    rows, folder = run.size(250_000), run.home / "input"
    for number in range(4):
        batch = run.spark.range(number * rows, (number + 1) * rows).selectExpr(SKEWED.format(keys=100_000), VALUE)
        write_batches(folder, [batch.toArrow()], first=number)
    balanced = unskew.balance(read_files(run.spark, folder), "key", channels=1000, min_gain=-1.0)
    run.finish(balanced.apply_per_key(lean_count_and_sum, OUTPUT, STATE))
    run.insist(run.last_of_each_key(), sums(run.spark.read.parquet(str(folder))))
    return "a function per key"


def remember(key: tuple[str], rows: Any, state: tuple[Any, ...] | None) -> Any:
    """Count, and keep a text of 400 letters for the key."""
    n = (state[0] if state else 0) + len(rows["value"])
    return (n, key[0] * (400 // len(key[0]))), (key[0], n)


def state_ten_times_the_memory(run: Run) -> str:
    """Local copies may hold a tenth of the state: the rest is read from the checkpoint when a row needs it."""
    keys, folder = run.size(1_000_000), run.write("input", run.size(1_000_000), "concat('k', id) AS key", VALUE)
    for number in range(1, 6):
        few = run.spark.range(10_000).selectExpr(f"concat('k', pmod(xxhash64(id, {number}), {keys})) AS key", VALUE)
        write_batches(folder, [few.toArrow()], first=number)
    expected = keys * 440
    balanced = unskew.balance(
        read_files(run.spark, folder), "key", channels=4, cache_bytes=expected // 10, memory_bytes=expected // 40
    )
    query = run.finish(balanced.apply_per_key(remember, "key string, n long", "n long, text string"))
    truth = run.spark.read.parquet(str(folder)).groupBy("key").agg(sql.expr("count(*) AS n"))
    run.insist(run.last_of_each_key(), truth)
    held, spilled = (sum(query.loads[name].to_pylist()) for name in ("state_bytes", "spilled_bytes"))
    if spilled < 0.8 * held:
        raise StateError("the state was not larger than the memory", got=(held, spilled))
    return f"{held / 1e6:,.0f} MB of state, {spilled / held:.0%} of it not in the local copies"


@dataclass(frozen=True)
class Case:
    """One extreme load."""

    run: Callable[[Run], str]  # returns what is worth saying
    quick: float  # how much smaller it is in a quick run
    minutes: float  # it may take
    config: Mapping[str, str] = field(default_factory=dict)


CASES = {
    "faster than the job": Case(faster_than_the_job, 0.1, 10),
    "10 million rows": Case(ten_million_rows, 0.01, 20),
    "10 million keys": Case(ten_million_keys, 0.01, 20),
    "rows of 1 MB": Case(rows_of_a_megabyte, 0.02, 20),
    "a key with 100 MB": Case(state_of_100_megabytes, 0.01, 10),
    "1,000 channels": Case(thousand_channels, 0.01, 20),
    "state 10 x memory": Case(state_ten_times_the_memory, 0.02, 20),
}
