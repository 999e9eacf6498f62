"""Several benchmarks one after another, each in a process of its own that ends in time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from unskew.bench.store import Record, failure, load

LIMIT_SECONDS = {
    "routing": 30,
    "planners": 60,
    "scale": 40,
    "operators": 70,
    "splitters": 100,
    "state": 120,
    "migration": 100,
    "peers": 100,
    "batch": 70,
    "kafka": 60,
    "skew": 390,
}
"""What a quick run may take, in the order in which they run; together below twenty minutes."""
OTHER_LIMIT_SECONDS = 60
WHOLE_FACTOR = 60  # whole runs are for a night: they have no limit to speak of

Command = Callable[[str, bool, Path], Sequence[str]]


def limit_seconds(name: str, quick: bool) -> float:
    """Return how long a benchmark may take.

    Examples
    --------
    >>> limit_seconds("routing", quick=True)
    30
    """
    return LIMIT_SECONDS.get(name, OTHER_LIMIT_SECONDS) * (1 if quick else WHOLE_FACTOR)


def in_order(names: Iterable[str]) -> list[str]:
    """Return the names in the order in which they run: short ones first, for what they leave is there for the others.

    Examples
    --------
    >>> in_order(["skew", "another", "state", "routing"])
    ['another', 'routing', 'state', 'skew']
    """
    order = list(LIMIT_SECONDS)
    return sorted(names, key=lambda name: (order.index(name) if name in order else -1, name))


def command(name: str, quick: bool, out: Path) -> Sequence[str]:
    """Return the command that runs one benchmark by itself."""
    return [sys.executable, "-m", "unskew", "bench", name, *(["--quick"] if quick else []), "--out", str(out)]


def run_each(
    names: Sequence[str],
    quick: bool,
    *,
    limit: Callable[[str, bool], float] = limit_seconds,
    run: Command = command,
) -> Iterator[Record]:
    """Run benchmarks and give their records as they end; one that fails, or takes too long, is given with the reason.

    A process each: Spark and its workers start fresh, and what one leaves behind does not disturb the next. Time that
    one leaves is there for those after it, so all together take no longer than the sum of their limits.
    """
    spare = 0.0
    for name in names:
        with tempfile.TemporaryDirectory(prefix="unskew-bench-") as folder:
            out, started = Path(folder) / "record.json", time.monotonic()
            allowed = limit(name, quick) + spare
            reason = _ended(run(name, quick, out), allowed)
            spare = max(0.0, allowed - (time.monotonic() - started))
            yield load(out) if out.exists() else failure(name, quick, reason)


def _ended(arguments: Sequence[str], seconds: float) -> str:
    """Run a command, with everything it starts, for so many seconds at most; return why there is no result."""
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        started = time.monotonic()
        try:
            _, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end_group(process)
            return f"It did not end within {seconds:,.0f} seconds and was stopped."
        except BaseException:
            _end_group(process)
            raise
        took = time.monotonic() - started
    lines = complaint.strip().splitlines()
    return f"It failed after {took:,.0f} seconds: {lines[-1] if lines else f'exit code {process.returncode}'}"


def _end_group(process: subprocess.Popen[str]) -> None:
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
