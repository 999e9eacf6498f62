"""A running count and sum per key over the same rows, by unskew and by what people might pick instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import ClassVar

import pyarrow as pa
import pyarrow.dataset
from pyspark.sql import SparkSession

from unskew.errors import StateError
from unskew_lab.bench.count_and_sum import CHANNELS, balanced_function, balanced_sums, native_function, native_sums
from unskew_lab.bench.harness import Benchmark, Row, interleave
from unskew_lab.bench.peers.bytewax_flow import BYTEWAX
from unskew_lab.bench.peers.flink_state import FLINK
from unskew_lab.bench.peers.peer import Peer, Totals
from unskew_lab.bench.peers.polars_frames import POLARS
from unskew_lab.bench.peers.skew_join import joins, write_table
from unskew_lab.bench.peers.spark_state import transform_with_state
from unskew_lab.bench.streams import Start, batch_seconds, temporary_folder, temporary_session, write_files

PEERS = (POLARS, BYTEWAX, FLINK)
ON_SPARK: Mapping[str, Start] = {
    "unskew, aggregate": balanced_sums,
    "unskew, function per key": balanced_function,
    "Spark, native aggregation": native_sums,
    "Spark, applyInPandasWithState": native_function,
    "Spark, transformWithState": transform_with_state,
}


class PeersBenchmark(Benchmark):
    """The same rows through engines with very different promises.

    Spark and unskew give exact results after any crash, batch by batch, with state in a store; their values are rows
    over the median time of a batch, on two cores and four state partitions. Polars and bytewax keep everything in the
    memory of one process and recover nothing: they bound what is possible, and are timed over all files with reading.
    """

    name: ClassVar[str] = "peers"
    summary: ClassVar[str] = "a running count and sum per key, beside what people might pick instead"

    def run(self, quick: bool) -> list[Row]:
        rows, batches, keys = (20_000, 4, 5_000) if quick else (200_000, 8, 50_000)
        with temporary_folder() as home:
            folder = home / "rows"
            write_files(folder, batches=batches, rows=rows, keys=keys)
            write_table(home / "table", keys)
            speeds = dict(self._in_one_process(folder, rows * batches, repeats=3))
            with temporary_session("local[2,4]", {"spark.sql.shuffle.partitions": str(CHANNELS)}) as spark:
                speeds |= _on_spark(spark, folder, rows, rounds=1 if quick else 2)
                joined = interleave(joins(spark, folder, home / "table"), repeats=3)
        ours = median(speeds["unskew, aggregate"])
        self.note(
            "Spark and unskew pay for planning, state store and commit in every batch, whatever its size; Polars and "
            "bytewax keep state in one process, lose it with that, and are timed over all batches together."
        )
        name = f"running count and sum, {rows:,} rows a batch"
        join, plain = "the same rows joined with a table, as a batch job", joined["Spark, plain join"].median_seconds
        times = {who: (timing.median_seconds, timing.samples) for who, timing in joined.items()}
        return [
            *(Row(name, who, median(s), "M rows/s", ratio=median(s) / ours, samples=s) for who, s in speeds.items()),
            *(Row(join, who, t, "s", ratio=t / plain, better="lower", samples=s) for who, (t, s) in times.items()),
        ]

    def _in_one_process(self, folder: Path, rows: int, repeats: int) -> Iterator[tuple[str, list[float]]]:
        present = []
        for peer in PEERS:
            reason = peer.missing()
            if reason is None:
                check(peer, folder)
                present.append(peer)
            else:
                self.note(f"Not measured: {peer.name}. {reason}")
        contenders: dict[str, Callable[[], object]] = {peer.name: partial(peer.run, folder) for peer in present}
        for name, timing in interleave(contenders, repeats=repeats, warmup=0).items():
            yield name, [rate / 1e6 for rate in timing.rates(rows)]


def _on_spark(spark: SparkSession, folder: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    times = batch_seconds(spark, folder, ON_SPARK, rounds=rounds, skipped=1)
    return {name: [rows / seconds / 1e6 for seconds in found] for name, found in times.items()}


def check(peer: Peer, folder: Path) -> None:
    """Insist that a peer's last counts and sums are those of the rows."""
    found, expected = peer.run(folder), expected_totals(folder)
    wrong = found.keys() != expected.keys() or any(
        found[key][0] != n or not math.isclose(found[key][1], total, rel_tol=1e-9)
        for key, (n, total) in expected.items()
    )
    if wrong:
        raise StateError("its counts or sums are not those of the rows", where=peer.name)


def expected_totals(folder: Path) -> Totals:
    """Return every key's count and sum, by pyarrow."""
    rows = pa.dataset.dataset(folder).to_table()
    sums = rows.group_by("key").aggregate([("value", "count"), ("value", "sum")])
    columns = (sums[name].to_pylist() for name in ("key", "value_count", "value_sum"))
    return {key: (n, total) for key, n, total in zip(*columns, strict=True)}
