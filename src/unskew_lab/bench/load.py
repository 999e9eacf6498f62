"""How much can come at once: extreme loads, each in a process of its own that is watched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from unskew.errors import ArgumentError, StateError, did_you_mean
from unskew.machine import memory_bytes
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.load_cases import CASES, Run
from unskew_lab.bench.processes import DRIVER, JVM, WORKERS, Peak, check_linux, usage
from unskew_lab.bench.streams import temporary_session
from unskew_lab.bench.suite import end_group

MOST_OF_MEMORY = 0.6  # of the machine; a case that takes more is ended
WORKS, STOPS, FAILS = "works", "stops with a clear error", "**fails**"


@dataclass(frozen=True)
class Outcome:
    """What became of a case."""

    case: str
    verdict: str
    detail: str
    rows: int = 0  # of the largest batch
    batches: int = 0
    seconds: float = 0.0
    driver_bytes: int = 0
    jvm_bytes: int = 0
    workers_bytes: int = 0


class LoadBenchmark(Benchmark):
    """Extreme loads on two cores. Each result is compared with Spark's own, or with what is known to be right.

    A case works, or stops with an error of unskew's that says what to do. Anything else fails: a wrong result, another
    error, too much time, or more than 60 % of the machine's memory. Seconds are those of the query alone, with the
    first batch's warm-up. Memory is the most that was seen, once a second: of the driver's Python, of the JVM,
    which holds driver and executor here and has 4 GB of heap at most, and of all Python workers together.
    """

    name: ClassVar[str] = "load"
    summary: ClassVar[str] = "extreme loads: each works, or stops with a clear error before harm"
    options: ClassVar[tuple[str, ...]] = ("case",)
    alone: ClassVar[bool] = True
    case: str | None = None

    def check(self) -> None:
        if self.case is not None and self.case not in CASES:
            raise ArgumentError(
                "there is no such case", where="--case", got=self.case, hint=did_you_mean(self.case, CASES)
            )

    def run(self, quick: bool) -> list[Row]:
        check_linux()
        outcomes = []
        for name in CASES if self.case is None else [self.case]:
            self.tell(name)
            outcomes.append(in_a_process(name, quick))
        self.table = table(outcomes)
        if quick:
            self.note("A quick run has small versions of all cases.")
        return [Row(each.case, each.verdict, each.seconds, "s", better="lower") for each in outcomes]


def table(outcomes: list[Outcome]) -> dict[str, list[Any]]:
    """Return what is printed."""
    megabytes = [
        [f"{size / 1e6:,.0f}" for size in (each.driver_bytes, each.jvm_bytes, each.workers_bytes)] for each in outcomes
    ]
    return {
        "headings": ["case", "rows a batch", "batches", "seconds", "driver, MB", "JVM, MB", "workers, MB", "verdict"],
        "numbers": [1, 2, 3, 4, 5, 6],
        "rows": [
            [
                each.case,
                f"{each.rows:,}",
                f"{each.batches:,}",
                f"{each.seconds:,.1f}",
                *sizes,
                f"{each.verdict}: {each.detail}",
            ]
            for each, sizes in zip(outcomes, megabytes, strict=True)
        ],
    }


def arguments(name: str, folder: str, quick: bool) -> list[str]:
    """Return the command that runs a case."""
    return [sys.executable, "-m", "unskew_lab.bench.load", name, folder, "quick" if quick else "whole"]


def in_a_process(name: str, quick: bool) -> Outcome:
    """Run a case by itself; end it when it takes too long or too much memory."""
    most = MOST_OF_MEMORY * (memory_bytes() or 8 << 30)
    with tempfile.TemporaryDirectory(prefix="unskew-load-", ignore_cleanup_errors=True) as folder:
        written, said, reason = Path(folder) / "outcome.json", Path(folder) / "said", ""
        ends = time.monotonic() + 60 * CASES[name].minutes
        with (
            said.open("w") as errors,
            subprocess.Popen(
                arguments(name, folder, quick), stdout=errors, stderr=errors, text=True, start_new_session=True
            ) as process,
        ):
            try:
                while process.poll() is None and not reason:
                    time.sleep(0.5)
                    if time.monotonic() > ends:
                        reason = f"it took more than {CASES[name].minutes:.0f} minutes"
                    if sum(taken.memory_bytes for taken in usage(process.pid).values()) > most:
                        reason = f"it took more than {most / 1e9:.0f} GB of memory"
            finally:
                if process.poll() is None:
                    end_group(process)
        if written.exists():
            return Outcome(**json.loads(written.read_text()))
        text = said.read_text().strip()
        print(f"{name!r} has not come to an end. What it printed:\n{text}", file=sys.stderr)
        return Outcome(name, FAILS, reason or (text.splitlines() or [f"exit code {process.returncode}"])[-1])


def outcome(name: str, home: Path, quick: bool) -> Outcome:
    """Run a case in this process."""
    case = CASES[name]
    with (
        temporary_session("local[2,4]", {"spark.local.dir": str(home / "local"), **case.config}) as spark,
        Peak() as peak,
    ):
        run = Run(spark, home, case.quick if quick else 1.0)
        try:
            verdict, detail = WORKS, case.run(run)
        except Exception as error:
            verdict, detail = judged(error)
    return Outcome(
        name,
        verdict,
        detail,
        max(run.batch_rows, default=0),
        len(run.batch_rows),
        run.seconds,
        *(peak.bytes[who] for who in (DRIVER, JVM, WORKERS)),
    )


def judged(error: Exception) -> tuple[str, str]:
    """Tell a clear error, one of unskew's with a hint, from any other, and from a wrong result."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    clear = [line for line in lines if "Hint:" in line and not isinstance(error, StateError)]
    text = (clear or lines or [type(error).__name__])[0]
    return STOPS if clear else FAILS, text[:500]


def main(name: str, folder: str, size: str) -> None:
    """Run a case in the process that `in_a_process` has started; end with that, however it ends."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    (Path(folder) / "outcome.json").write_text(json.dumps(asdict(outcome(name, Path(folder), size == "quick"))))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)  # this process leads a group of its own, Java and Python workers included


if __name__ == "__main__":
    main(*sys.argv[1:])
