"""Several benchmarks one after another, each in a process of its own that ends in time."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from unskew_lab.bench.harness import benchmarks
from unskew_lab.bench.store import Record, failure, load

# what a quick run takes on two idle cores, about, in the order in which they run. Together they leave two minutes of
# `QUICK_SECONDS` for a fresh clone, in which kernels have to be compiled first. Where that is not enough, the last ones
# are cut off.
EXPECTED_SECONDS = {
    "routing": 15,
    "planners": 20,
    "scale": 15,
    "migration": 60,
    "splitters": 85,
    "peers": 90,
    "state": 135,
    "aggregates": 110,
    "skew": 160,
    "race": 80,
    "batch": 105,
    "kafka": 145,
    "operators": 125,
}
OTHERS_EXPECTED_SECONDS = 30
QUICK_SECONDS = 19.5 * 60

Command = Callable[[str, bool, Path], Sequence[str]]


def expected_seconds(name: str) -> float:
    """Return what a quick run takes, about.

    >>> expected_seconds("routing")
    15
    """
    return EXPECTED_SECONDS.get(name, OTHERS_EXPECTED_SECONDS)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names in the order in which they run: short ones first, and what may be missing last.

    >>> in_order(["skew", "another", "state", "routing"])
    ['another', 'routing', 'state', 'skew']
    """
    order = list(EXPECTED_SECONDS)
    return sorted(names, key=lambda name: (order.index(name) if name in order else -1, name))


def together() -> list[str]:
    """Return the benchmarks that ``unskew bench all`` runs: those that need not be named to run."""
    return [name for name in benchmarks if not benchmarks[name].alone]


def command(name: str, quick: bool, out: Path) -> Sequence[str]:
    """Return the command that runs one benchmark by itself."""
    return [sys.executable, "-m", "unskew", "bench", name, *(["--quick"] if quick else []), "--out", str(out)]


def run_each(
    names: Sequence[str],
    quick: bool,
    *,
    seconds: float = QUICK_SECONDS,
    expected: Callable[[str], float] = expected_seconds,
    run: Command = command,
) -> Iterator[Record]:
    """Run benchmarks and give their records as they end; one that fails, or takes too long, is given with the reason.

    A process each: Spark and its workers start fresh, and what one leaves behind does not disturb the next. Quick runs
    end within `seconds` together: each may take what is left but for what those after it are expected to take. Whole
    runs have no limit.
    """
    ends = time.monotonic() + (seconds if quick else math.inf)
    for place, name in enumerate(names, start=1):
        allowed = ends - time.monotonic() - sum(map(expected, names[place:]))
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as folder:
            out = Path(folder) / "record.json"
            reason = _ended(run(name, quick, out), max(allowed, 1.0))
            yield load(out) if out.exists() else failure(name, quick, reason)


def _ended(arguments: Sequence[str], seconds: float) -> str:
    """Run a command, with everything it starts, for so many seconds at most; return why there is no result."""
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        started = time.monotonic()
        try:
            _, complaint = process.communicate(timeout=None if math.isinf(seconds) else seconds)
        except subprocess.TimeoutExpired:
            end_group(process)
            return f"It did not end within {seconds:,.0f} seconds and was stopped."
        except BaseException:
            end_group(process)
            raise
        took = time.monotonic() - started
    lines = complaint.strip().splitlines()
    return f"It failed after {took:,.0f} seconds: {lines[-1] if lines else f'exit code {process.returncode}'}"


def end_group(process: subprocess.Popen[str]) -> None:
    """End a process that leads a session of its own, and the Java and Python processes that it has started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            continue
