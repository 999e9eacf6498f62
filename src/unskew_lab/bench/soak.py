"""Hours of small batches: does anything grow?"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, TypeAlias

from pyspark.sql import SparkSession

from unskew.errors import FAR, require_number
from unskew.runtime.history import BATCHES_KEPT, BATCHES_PER_FILE
from unskew.spark.query import FIGURES_SHOWN
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.processes import DRIVER, JVM, WORKERS, check_linux, files_below, native_memory, usage
from unskew_lab.bench.slopes import SlopeRow, slope_row
from unskew_lab.bench.soak_queries import FUNCTION, ROWS, WINDOWS, Soaked
from unskew_lab.bench.streams import temporary_session

SAMPLE_SECONDS = 3.0
COLLECT_EVERY = 5  # samples; then the JVM's garbage is collected and its heap measured
NATIVE_EVERY = 20  # samples; then the JVM is asked what its native memory is for
WARM_UP_SHARE = 1 / 3
MEGABYTE = 1e6

# What a day may add before a slope counts as growth, by unit. A query that adds this much runs for months.
BOUNDS = {"MB": 50.0, "files": 50.0, "": 10_000.0, "ms": 50.0}

# Spark keeps so much of the past for its page and for its logs. Its defaults are larger, and would fill up for longer.
PAST_KEPT = {
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "500",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine is no reason to end
}

QUERIES = (FUNCTION, WINDOWS)
FIGURES = "checkpoint, history"
BATCHES = "batches"
NATIVE = "the JVM's own count of "
HEAP = "Java Heap"

# second, value, second, value, ...: numbers alone, which take no blocks of memory
Samples: TypeAlias = "dict[str, array[float]]"
Series = dict[str, list[tuple[float, float]]]


class SoakBenchmark(Benchmark):
    """Thousands of small batches, with memory, files and time sampled every three seconds.

    Two queries run side by side on two cores, as fast as they can, 1,000 rows a batch. One has a pandas function per
    key (``applyInPandasWithState``) whose keys time out; every batch is counted and planned, and state moves. The other
    counts and sums in windows of event time. Keys have Zipf 1.0 frequencies, others become hot every six batches, new
    ones come and old ones end: the state is bounded. At the end every result is compared with Spark's own.

    The first third of the run is not judged: Java compiles, and Spark fills up what it keeps of the past. Java's heap
    has a fixed size and is in memory from the start, so what grows in the JVM is not heap. The heap itself is measured
    right after a garbage collection. Figures of 1,000 batches are kept; these files are counted apart.
    """

    name: ClassVar[str] = "soak"
    summary: ClassVar[str] = "memory, files and batch time over thousands of small batches: does anything grow"
    options: ClassVar[tuple[str, ...]] = ("minutes",)
    alone: ClassVar[bool] = True
    minutes: float = 30.0

    def check(self) -> None:
        require_number("--minutes", self.minutes, SAMPLE_SECONDS / 60, FAR, whole=False)

    def run(self, quick: bool) -> list[Row]:
        check_linux()
        with tempfile.TemporaryDirectory(prefix="unskew-soak-", ignore_cleanup_errors=True) as folder:
            return self.run_in(Path(folder), 60 * (1.5 if quick else self.minutes))

    def run_in(self, home: Path, seconds: float) -> list[Row]:
        """Run for so long, with all files below a folder; Ctrl-C ends it earlier and keeps what was measured."""
        with _temporary_files_in(home / "tmp"):
            java = f"-Xms1g -XX:+AlwaysPreTouch -XX:NativeMemoryTracking=summary -Djava.io.tmpdir={home / 'tmp'}"
            config = {**PAST_KEPT, "spark.local.dir": str(home / "local"), "spark.driver.memory": "1g"}
            with temporary_session("local[2,4]", {**config, "spark.driver.extraJavaOptions": java}) as spark:
                queries = list[Soaked]()
                samples: Samples = defaultdict(lambda: array("d"))
                try:
                    queries += (self._started(spark, home, name) for name in QUERIES)
                    began = time.monotonic()
                    try:
                        self._sample(spark, home, queries, samples, began, seconds)
                    except KeyboardInterrupt:
                        self.note("The run was interrupted; this is what was measured until then.")
                    ran = time.monotonic() - began
                    rows = sum(query.check() for query in queries)
                finally:
                    for query in queries:
                        query.query.stop()
        self.note(f"All results are those of Spark's own groupBy over the same {rows:,} rows.")
        series = {name: [*zip(flat[::2], flat[1::2], strict=True)] for name, flat in samples.items()}
        begins = self._begins(series, ran)
        self.note(_native_growth({name: series.pop(name) for name in [*series] if name.startswith(NATIVE)}, begins))
        judged = [*_judged(series, begins)]
        self.table = _table(judged, series, begins)
        told = {"minutes run": ran / 60, "minutes not judged": begins / 60, "batches": rows / ROWS}
        return [*(Row(name, "unskew", value, "") for name, value in told.items()), *judged]

    def _started(self, spark: SparkSession, home: Path, name: str) -> Soaked:
        """Return a query that has ended its first batch."""
        self.tell(f"the first batch of {name}")
        query = Soaked(spark, home, name)
        while not query.batches:
            time.sleep(0.5)
        return query

    def _begins(self, series: Series, ran: float) -> float:
        """Return the second from which on a run is judged."""
        full = next((second for second, batches in series.pop(BATCHES, []) if batches >= FIGURES_SHOWN), ran)
        if full > 2 * WARM_UP_SHARE * ran:
            self.note(f"The run was too short for the figures of {FIGURES_SHOWN:,} batches, which the driver keeps.")
            return WARM_UP_SHARE * ran
        return max(full, WARM_UP_SHARE * ran)

    def _sample(
        self, spark: SparkSession, home: Path, queries: list[Soaked], samples: Samples, began: float, seconds: float
    ) -> None:
        seen = {query.name: -1 for query in queries}
        for number in range(int(seconds / SAMPLE_SECONDS)):
            time.sleep(max(0.0, began + (number + 1) * SAMPLE_SECONDS - time.monotonic()))
            found = {**_memory(), **_files(home)}
            if number % COLLECT_EVERY == 0:
                found |= _collected(spark)
            if number % NATIVE_EVERY == 0:
                found |= {f"{NATIVE}{kind}": size / MEGABYTE for kind, size in native_memory().items()}
            for query in queries:
                fresh = [each for each in query.batches if each.batch_id > seen[query.name]]
                if fresh:
                    seen[query.name] = fresh[-1].batch_id
                    found[f"batch time, {query.name} | ms"] = 1e3 * median(sum(f.seconds.values()) for f in fresh)
            found[BATCHES] = min(seen.values())
            second = time.monotonic() - began
            for name, value in found.items():
                samples[name].extend((second, float(value)))
            batches = ", ".join(f"{seen[query.name] + 1:,} batches of {query.name}" for query in queries)
            self.tell(f"{second / 60:.1f} of {seconds / 60:.0f} minutes, {batches}")


def _memory() -> dict[str, float]:
    """Return what the processes take, and how many blocks of memory the driver's Python holds.

    `gc.get_objects` would hold on to tuples that other threads are still building, which then fail.
    """
    found: dict[str, float] = {f"{DRIVER}: Python blocks | ": sys.getallocatedblocks()}
    for who, taken in usage().items():
        found[f"{who}: memory | MB"] = taken.memory_bytes / MEGABYTE
        found[f"{who}: open files | files"] = taken.open_files
        if who == WORKERS:
            found[f"{who}: memory, shared pages counted for each | MB"] = taken.resident_bytes / MEGABYTE
    return found


def _collected(spark: SparkSession) -> dict[str, float]:
    """Collect the JVM's garbage; return what is left on its heap, and how many of its objects Python holds."""
    context: Any = spark.sparkContext
    java = context._jvm.java.lang
    java.System.gc()
    memory = java.management.ManagementFactory.getMemoryMXBean()
    held = context._gateway.java_gateway_server.getGateway().getBindings().size()
    return {
        f"{JVM}: heap after a collection | MB": memory.getHeapMemoryUsage().getUsed() / MEGABYTE,
        f"{JVM}: classes and compiled code | MB": memory.getNonHeapMemoryUsage().getUsed() / MEGABYTE,
        f"{JVM}: objects that Python holds | ": held,
    }


def _native_growth(series: Series, begins: float) -> str:
    """Say what of the JVM's own count has grown since a second of the run."""
    grown = {}
    for name, values in series.items():
        judged = [value for second, value in values if second >= begins] or [0.0]
        grown[name.removeprefix(NATIVE)] = judged[-1] - judged[0]
    grown.pop(HEAP, None)
    parts = [f"{size:+.1f} MB {kind}" for kind, size in sorted(grown.items(), key=lambda each: -abs(each[1]))]
    told = f"{sum(grown.values()):+.1f} MB since the warm-up ({', '.join(parts[:6])})"
    return f"The JVM's own count of its native memory: {told if grown else 'not known, as there is no jcmd'}."


def _files(home: Path) -> dict[str, float]:
    """Return files and megabytes: in checkpoints, Spark's and unskew's apart, in local copies, in temporary folders."""
    counted = {
        FIGURES: _sum(home / name / "unskew" / "history" for name in QUERIES),
        "checkpoint, unskew's": _sum(p for name in QUERIES for p in (home / name / "unskew").glob("[!h]*")),
        "checkpoint, Spark's": _sum(p for name in QUERIES for p in (home / name).glob("[!u]*")),
        "local copies": _sum((home / "local").glob("*/unskew-state-*")),
        "temporary files": _sum([home / "tmp"]),
    }
    everything, copies = _sum([home / "local"]), counted["local copies"]
    counted["Spark's local files"] = everything[0] - copies[0], everything[1] - copies[1]
    return {
        f"{name}: {what} | {what}": value
        for name, (files, size) in counted.items()
        for what, value in (("files", files), ("MB", size / MEGABYTE))
    }


def _sum(folders: Iterable[Path]) -> tuple[int, int]:
    found = [(0, 0), *map(files_below, folders)]
    return sum(files for files, _ in found), sum(size for _, size in found)


def _judged(series: Series, begins: float) -> Iterator[Row]:
    for name, values in sorted(series.items()):
        what, _, unit = name.partition(" | ")
        if what == f"{FIGURES}: files":
            most = 2 * (BATCHES_KEPT // BATCHES_PER_FILE + 2)
            yield Row(what, "unskew", max(v for _, v in values), unit, target=most, better="lower")
        elif not what.startswith(FIGURES):
            yield slope_row(what, unit, values, begins, BOUNDS[unit])


def _table(judged: list[Row], series: Series, begins: float) -> dict[str, list[Any]]:
    """Return what is printed: the median of each series, its growth a day, and the verdict."""
    medians = {
        name.partition(" | ")[0]: median([value for second, value in values if second >= begins] or [values[-1][1]])
        for name, values in series.items()
    }
    verdicts = {True: "flat", False: "**grows**", None: "too few samples"}
    rows = []
    for row in judged:
        unit = row.unit.partition("/")[0]
        growth = "" if row.interval is None else "{:+,.3g} ({:+,.3g} to {:+,.3g})".format(row.value, *row.interval)
        verdict = verdicts[row.met] if isinstance(row, SlopeRow) else "bounded" if row.met else "**too many**"
        bound = "" if row.target is None else f"{row.target:,.3g}"
        rows.append([row.name, f"{medians[row.name]:,.4g} {unit}".strip(), growth, bound, verdict])
    headings = ["what", "median", "growth a day (95 %)", "bound", "verdict"]
    return {"headings": headings, "numbers": [1, 2, 3], "rows": rows}


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Let this process, and those that it starts, put temporary files there, so that they can be counted."""
    folder.mkdir(parents=True)
    before, directory = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = directory
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
