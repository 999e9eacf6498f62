"""Measures the runtime beside native Spark, and prints a line for each run; the figures of docs/concepts/runtime.md.

    .venv/bin/python examples/measure_runtime.py per-key --channels 10 --rows 20000 --wait-us 500
    .venv/bin/python examples/measure_runtime.py per-key --channels 2 --rows 100000
    .venv/bin/python examples/measure_runtime.py per-key --channels 8 --rows 5000
    .venv/bin/python examples/measure_runtime.py small
    .venv/bin/python examples/measure_runtime.py held --keys 2000000

Every row can be made to wait (``--wait-us``, on as many threads as there are channels) or to compute (``--work-us``, on
two). Run it alone: two cores lie when something else runs.
"""

import argparse
import glob
import shutil
import tempfile
import time

import numpy as np
import pandas as pd
import pyarrow as pa

import unskew
from unskew.spark import session
from unskew.testing import write_batches

NATIVE_STATE = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
FIRST = 3  # batches in which Java and Python still warm up


def run(writer, checkpoint=None):
    """Run a query over all batches."""
    query = writer.option("checkpointLocation", checkpoint or tempfile.mkdtemp()).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def seconds(query, first=FIRST):
    """Return how long each batch took."""
    return [p.durationMs["triggerExecution"] / 1000 for p in query.recentProgress if p.numInputRows][first:]


def per_key(options):
    """A pandas function per key, native and balanced; the hot keys of a Zipf stream change every six batches."""
    rng, keys = np.random.default_rng(1), 10_000
    share = 1 / np.arange(1, keys + 1)
    drawn = [rng.choice(keys, options.rows, p=share / share.sum()) for _ in range(options.batches)]
    users = [[f"u{(key + 37 * (batch // 6)) % keys}" for key in column] for batch, column in enumerate(drawn)]
    tables = [pa.table({"user": column, "value": np.arange(options.rows)}) for column in users]
    spark = session(f"local[{options.channels}]" if options.wait_us else "local[2]", NATIVE_STATE)
    spark.conf.set("spark.sql.shuffle.partitions", str(options.channels))
    folder = write_batches(tempfile.mkdtemp(), tables, row_group_size=max(1, options.rows // options.channels))
    events = spark.readStream.schema("user string, value long").option("maxFilesPerTrigger", 1).parquet(folder)
    wait, work = options.wait_us / 1e6, options.work_us / 1e6

    def total(key, frames, state):
        rows, amount = state.get if state.exists else (0, 0)
        for frame in frames:
            time.sleep(len(frame) * wait)
            end = time.process_time() + len(frame) * work
            while time.process_time() < end:
                pass
            rows, amount = rows + len(frame), amount + int(frame["value"].sum())
        state.update((rows, amount))
        yield pd.DataFrame({"user": [key[0]], "rows": [rows], "amount": [amount]})

    arguments = (total, "user string, rows long, amount long", "rows long, amount long", "update", "NoTimeout")
    truth = pd.concat([table.to_pandas() for table in tables]).groupby("user").value.agg(["size", "sum"])
    for name in ("native", "unskew"):
        seen = {}

        def sink(rows, batch_id, seen=seen):
            seen.update({row["user"]: (row["rows"], row["amount"]) for row in rows.toArrow().to_pylist()})

        balanced = unskew.balance(events, "user", channels=options.channels)
        grouped = events.groupBy("user") if name == "native" else balanced
        writer = grouped.applyInPandasWithState(*arguments).writeStream.outputMode("update").foreachBatch(sink)
        query = run(writer)
        took, wrong = seconds(query), sum(seen.get(user) != tuple(row) for user, row in truth.iterrows())
        p95 = np.percentile(took, 95)
        print(f"{name}: median {np.median(took):.2f} s, p95 {p95:.2f} s, {wrong} wrong keys", flush=True)
    for figures in query.figures:
        print(f"  batch {figures.batch_id}: fullest channel {figures.imbalance:.3f}, hash {figures.hash_imbalance:.3f}")


def small(options):
    """Batches of 1,000 rows: balanced, and through an empty ``foreachBatch`` that never touches them."""
    spark, rng = session("local[2]"), np.random.default_rng(0)
    tables = [pa.table({"user": [f"u{key % 500}" for key in rng.zipf(1.3, 1000)]}) for _ in range(25)]
    files = spark.readStream.schema("user string").option("maxFilesPerTrigger", 1)
    events = files.parquet(write_batches(tempfile.mkdtemp(), tables))

    def count(key, frames, state):
        rows = (state.get[0] if state.exists else 0) + sum(map(len, frames))
        state.update((rows,))
        yield pd.DataFrame({"user": [key[0]], "rows": [rows]})

    arguments = (count, "user string, rows long", "rows long", "update", "NoTimeout")
    for _ in range(2):
        empty = run(events.writeStream.foreachBatch(lambda rows, batch_id: None))
        stage = unskew.balance(events, "user").applyInPandasWithState(*arguments)
        query = run(stage.writeStream.foreachBatch(lambda rows, batch_id: None))
        base = np.median([p.durationMs["triggerExecution"] / 1000 for p in empty.recentProgress][5:-1])
        inside = np.median([sum(figures.channel_seconds) for figures in query.figures[5:]])
        own = np.median(seconds(query, 5)) - base
        print(f"{own:.3f} s above an empty foreachBatch ({base:.3f} s), {inside:.3f} s of it in the operator")


def held(options):
    """10,000 keys touched in every batch, with few and with many keys held; then two restarts."""
    spark, rng, medians = session("local[2]"), np.random.default_rng(0), []

    def batches(keys, count):
        for _ in range(count):
            yield pa.table({"user": rng.choice(keys, 10_000, replace=False), "value": np.ones(10_000, np.int64)})

    def sink(rows, batch_id):
        rows.write.format("noop").mode("overwrite").save()

    for keys in (10_000, options.keys):
        first = pa.table({"user": np.arange(keys), "value": np.ones(keys, np.int64)})
        folder, checkpoint = tempfile.mkdtemp(), tempfile.mkdtemp()
        write_batches(folder, [first, *batches(keys, 14)], row_group_size=max(5000, keys // 2))
        events = spark.readStream.schema("user long, value long").option("maxFilesPerTrigger", 1).parquet(folder)
        stage = unskew.balance(events, "user", channels=4).aggregate(n="count", total="sum(value)")
        medians.append(np.median(seconds(run(stage.writeStream.foreachBatch(sink), checkpoint), 4)))
        print(f"{keys:,} keys held: median {medians[-1]:.3f} s", flush=True)
    print(f"ratio {medians[1] / medians[0]:.2f}")
    for number, label in enumerate(("there", "gone")):
        if label == "gone":
            for copies in glob.glob(f"{tempfile.gettempdir()}/**/unskew-state-*", recursive=True):
                shutil.rmtree(copies, ignore_errors=True)
        write_batches(folder, batches(options.keys, 6), first=15 + 6 * number)
        took = seconds(run(stage.writeStream.foreachBatch(sink), checkpoint), 0)
        later = np.median(took[2:])
        print(f"restart, local copy {label}: first batch {took[0]:.2f} s, later ones {later:.2f} s", flush=True)


def main():
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["per-key", "small", "held"])
    parser.add_argument("--channels", type=int, default=10)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--wait-us", type=int, default=0)
    parser.add_argument("--work-us", type=int, default=0)
    parser.add_argument("--keys", type=int, default=2_000_000)
    options = parser.parse_args()
    {"per-key": per_key, "small": small, "held": held}[options.what](options)


if __name__ == "__main__":
    main()
