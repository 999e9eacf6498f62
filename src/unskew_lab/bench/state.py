"""Keyed state: what a batch costs unskew beside Spark's own operators, and what a large state costs it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from unskew.errors import StateError
from unskew_lab.bench.collected import collected
from unskew_lab.bench.count_and_sum import (
    balanced_function,
    balanced_lean_function,
    balanced_processor,
    balanced_sums,
    native_processor,
)
from unskew_lab.bench.drop_in import NATIVE, OURS, native_and_drop_in, native_over_ours, run_checked, write_stream
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.lane import by_turns
from unskew_lab.bench.pairs import batch_rows, difference_of_medians, ratio_of_medians
from unskew_lab.bench.streams import (
    StartWithSink,
    in_turn,
    read_files,
    start,
    temporary_folder,
    temporary_session,
    write_file,
    write_files,
)

EMPTY, LEAN = "empty foreachBatch", "lean"
DROP_IN = "drop-in"
PROCESSOR_KEYS = 57_000  # some 46,000 of them are in a batch of 500,000 rows
RESTART_BATCHES = 5


@dataclass(frozen=True)
class Turns:
    """How often contenders take turns, those that warm up not counted, and how often a query is restarted."""

    drop_in: int
    small_drop_in: int
    smallest: int
    held: int
    restarts: int
    processor: int
    entries: int  # all of them count but the first
    steady: int


WHOLE = Turns(drop_in=15, small_drop_in=20, smallest=60, held=40, restarts=5, processor=3, entries=4, steady=60)
QUICK = Turns(drop_in=3, small_drop_in=5, smallest=15, held=10, restarts=2, processor=1, entries=2, steady=10)


class StateBenchmark(Benchmark):
    """A running count and sum per key, as Spark users write it and as unskew runs it, on two cores.

    *Drop-in* is one pandas function in Spark's ``applyInPandasWithState`` and in unskew's. It reads the key's count and
    sum from the state, adds the batch's rows of that key, writes the state and yields a frame of one row. Keys have
    Zipf 1.0 frequencies; others become hot every six batches. *Lean* is the same logic in ``apply_per_key``. Native
    Spark keeps its state in RocksDB with changelogs, and has as many partitions as unskew has channels. Results of
    these are checked.

    *Processor* is the same as a stateful processor, on pandas frames and on rows, in Spark's ``transformWithState`` and
    in unskew's. A list and a map then take every row of a key, until they have 100 and 1,000 entries; all entries are
    read in every batch. *Steady* is one batch of 1,000 rows after the other on 50,000 keys that are known.

    The smallest batches run beside a query with the same source and trigger whose ``foreachBatch`` does nothing: what
    is above it is unskew's own cost, with the function's.

    Two queries that touch 10,000 keys a batch hold few and many keys. The one that holds many is then restarted, with
    the executors' local copies of its state there and deleted, in turns.
    """

    name: ClassVar[str] = "state"
    summary: ClassVar[str] = "keyed state beside Spark's own operators: large and small batches, large state, restarts"

    def run(self, quick: bool) -> list[Row]:
        if quick:
            self.note("A quick run has few turns: targets are judged by the whole run.")
        return self.run_turns(QUICK if quick else WHOLE)

    def run_turns(self, turns: Turns, scale: float = 1.0) -> list[Row]:
        """Measure with so many turns; a `scale` below 1 makes batches and state smaller."""

        def rows(count: int) -> int:
            return int(count * scale)

        with (
            temporary_folder() as home,
            temporary_session("local[2,4]", {"spark.local.dir": str(home / "local")}) as spark,
        ):
            return [
                *drop_in(spark, home / "large", rows(100_000), 2, turns.drop_in, target=4.5, lean=True),
                *drop_in(spark, home / "small", rows(5_000), 8, turns.small_drop_in, target=1.5),
                *processors(spark, home / "frames", rows(500_000), 2, turns.processor, target=15.0),
                *processors(spark, home / "rows", rows(500_000), 2, turns.processor, target=5.0, by_row=True),
                *collected(spark, home / "lists", "list", rows(10_000), 100, turns.entries),
                *collected(spark, home / "maps", "map", rows(200), 1_000, turns.entries),
                *steady(spark, home / "steady", rows(1_000), rows(50_000), 5, turns.steady),
                *own_cost(spark, home / "smallest", rows(1_000), turns.smallest),
                *touched_and_held(
                    spark,
                    home / "held",
                    rows(10_000),
                    rows(2_000_000),
                    turns.held,
                    turns.restarts,
                    partial(delete_copies, home / "local"),
                ),
            ]


def drop_in(
    spark: SparkSession, home: Path, rows: int, channels: int, turns: int, *, target: float, lean: bool = False
) -> list[Row]:
    """Compare ``applyInPandasWithState`` of both, the same function in each."""
    warm_up = 2
    write_stream(home, warm_up + turns, rows, channels)
    contenders = native_and_drop_in(channels)
    if lean:
        contenders[LEAN] = partial(balanced_lean_function, channels=channels)
    lanes = run_checked(spark, home, contenders, channels)
    return native_over_ours(f"{DROP_IN}, {rows:,} rows, {channels} channels", lanes, warm_up, target)


def processors(
    spark: SparkSession, home: Path, rows: int, channels: int, turns: int, *, target: float, by_row: bool = False
) -> list[Row]:
    """Compare ``transformWithState`` of both, the same processor in each."""
    warm_up = 1
    write_files(home / "files", warm_up + turns, rows, PROCESSOR_KEYS, exponent=1.0)
    contenders: dict[str, StartWithSink] = {
        NATIVE: partial(native_processor, by_row=by_row),
        OURS: partial(balanced_processor, by_row=by_row, channels=channels),
    }
    name = f"processor on {'rows' if by_row else 'frames'}, {rows:,} rows, {channels} channels"
    return native_over_ours(name, run_checked(spark, home, contenders, channels), warm_up, target)


def steady(spark: SparkSession, home: Path, rows: int, keys: int, channels: int, turns: int) -> list[Row]:
    """Compare a processor of both on small batches that touch a few of many keys."""
    warm_up = 4  # the first batch brings all keys
    write_file(home / "files", 0, _names(np.arange(keys)), np.ones(keys))
    _write_touching(home / "files", keys, rows, first=1, count=warm_up - 1 + turns)
    contenders: dict[str, StartWithSink] = {
        NATIVE: partial(native_processor, by_row=True),
        OURS: partial(balanced_processor, by_row=True, channels=channels),
    }
    lanes = run_checked(spark, home, contenders, channels)
    seconds = {who: lane.after(warm_up) for who, lane in lanes.items()}
    name = f"processor on rows, {rows:,} of {keys:,} keys, {channels} channels"
    return [
        ratio_of_medians(seconds[OURS], seconds[NATIVE]).row(f"{name}: unskew over native", target=0.5, better="lower"),
        *batch_rows(name, seconds),
        *(
            Row(f"{name}: batch, 99 %", who, float(np.percentile(taken, 99)), "s", better="lower")
            for who, taken in seconds.items()
        ),
    ]


def own_cost(spark: SparkSession, home: Path, rows: int, turns: int) -> list[Row]:
    """Compare the drop-in with a query of Spark's that has the same source and trigger, and does nothing."""
    warm_up = 5
    write_files(home / "files", warm_up + turns, rows, keys=500)
    starts: dict[str, StartWithSink] = {DROP_IN: partial(balanced_function, channels=None), EMPTY: start}
    lanes = by_turns(
        {
            name: in_turn(read_files(spark, home / "files"), home / name, each, lambda rows, batch_id: None)
            for name, each in starts.items()
        }
    )
    seconds = {name: lane.after(warm_up) for name, lane in lanes.items()}
    own = difference_of_medians(*([1e3 * each for each in seconds[who]] for who in (DROP_IN, EMPTY)))
    name = f"{rows:,} rows"
    return [
        own.row(f"{name}: {DROP_IN} above an {EMPTY}", "ms", target=170, better="lower"),
        *batch_rows(name, seconds),
    ]


def touched_and_held(
    spark: SparkSession,
    home: Path,
    touched: int,
    held: int,
    turns: int,
    restarts: int,
    delete: Callable[[], None],
) -> list[Row]:
    """Compare batches that touch as many keys of a large state and of a small one; then restart the large one.

    `delete` deletes the local copies of state.
    """
    warm_up = 4  # the first batch brings all keys
    few, many = (f"{count:,} keys held" for count in (touched, held))
    sizes = {many: held, few: touched}
    for name, size in sizes.items():
        write_file(home / name, 0, _names(np.arange(size)), np.ones(size))
        _write_touching(home / name, size, touched, first=1, count=warm_up - 1 + turns)
    lanes = by_turns(
        {name: in_turn(read_files(spark, home / name), home / f"{name} checkpoint", balanced_sums) for name in sizes}
    )
    seconds = {name: lane.after(warm_up) for name, lane in lanes.items()}
    rows = [
        ratio_of_medians(seconds[many], seconds[few]).row(
            f"{touched:,} keys touched: {many} over {few}", target=1.3, better="lower"
        ),
        *batch_rows(f"{touched:,} keys touched", seconds),
    ]

    def restart(number: int) -> list[float]:
        _write_touching(
            home / many, held, touched, first=warm_up + turns + number * RESTART_BATCHES, count=RESTART_BATCHES
        )
        query = balanced_sums(read_files(spark, home / many), str(home / f"{many} checkpoint"))
        query.awaitTermination()
        return [each.durationMs["triggerExecution"] / 1e3 for each in query.recentProgress if each.numInputRows]

    return [*rows, *restarted(f"restart, {many}", restart, delete, restarts)]


def restarted(
    name: str, restart: Callable[[int], Sequence[float]], delete: Callable[[], None], restarts: int
) -> list[Row]:
    """Return the first batch after a restart over a later one, with local copies there and gone, in turns.

    `restart` runs the query for the n-th time and returns what its batches took; `delete` deletes the local copies.
    """
    first: dict[str, list[float]] = {"there": [], "gone": []}
    later: dict[str, list[float]] = {"there": [], "gone": []}
    for number in range(2 * restarts):
        copy = "gone" if number % 2 else "there"
        if copy == "gone":
            delete()
        taken = restart(number)
        first[copy].append(taken[0])
        later[copy].append(median(taken[1:]))
    return [
        *(
            ratio_of_medians(first[copy], later[copy]).row(
                f"{name}, local copy {copy}: first batch over a later one", better="lower"
            )
            for copy in first
        ),
        *batch_rows(f"{name}, first batch", {f"local copy {copy}": taken for copy, taken in first.items()}),
        *batch_rows(f"{name}, later batches", {f"local copy {copy}": taken for copy, taken in later.items()}),
    ]


def _write_touching(files: Path, held: int, touched: int, *, first: int, count: int) -> None:
    for batch in range(first, first + count):
        drawn = np.random.default_rng(batch).choice(held, touched, replace=False)
        write_file(files, batch, _names(drawn), np.ones(touched))


def _names(numbers: np.ndarray[Any, Any]) -> pa.Array:
    return pa.array([f"k{number}" for number in numbers])


def delete_copies(local: Path) -> None:
    """Delete the executors' local copies of state; they lie below Spark's local directory."""
    found = [*local.rglob("unskew-state-*")]
    if not found:
        raise StateError("there are no local copies to delete", where=str(local))
    for folder in found:
        shutil.rmtree(folder)
