"""What it costs a query to be watched."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from unskew_lab.bench.count_and_sum import balanced_function
from unskew_lab.bench.drop_in import write_stream
from unskew_lab.bench.harness import Benchmark, Row
from unskew_lab.bench.pairs import batch_rows, ratio_of_medians
from unskew_lab.bench.streams import read_files, temporary_session

ALONE, WATCHED = "nobody watches", "watched"
CHANNELS, ROWS = 2, 20_000
WARM_UP = 4
# somebody who has the page open: a client that takes every update in, as a browser would, and draws nothing
READER = """
import sys, time
from bokeh.client import pull_session
session = pull_session(url=sys.argv[1])
while True:
    session.force_roundtrip()
    time.sleep(0.5)
"""


class WatchingBenchmark(Benchmark):
    """Whole runs of one query by turns: every second one with ``unskew watch`` on its checkpoint and a page open.

    The query shares two cores with the server and the reader, which is the worst case: people watch from elsewhere.
    """

    name: ClassVar[str] = "watching"
    summary: ClassVar[str] = "batches of a query that somebody watches, beside batches that nobody does"
    alone: ClassVar[bool] = True

    def run(self, quick: bool) -> list[Row]:
        rounds, batches = (2, 12) if quick else (4, 24)
        seconds: dict[str, list[float]] = {ALONE: [], WATCHED: []}
        with temporary_session(f"local[{CHANNELS}]") as spark, tempfile.TemporaryDirectory() as folder:
            write_stream(Path(folder), batches, ROWS, CHANNELS)
            for number in range(rounds):
                for name in (ALONE, WATCHED) if number % 2 == 0 else (WATCHED, ALONE):
                    checkpoint = Path(folder) / f"{name} {number}"
                    query = balanced_function(
                        read_files(spark, Path(folder) / "files"), str(checkpoint), channels=CHANNELS
                    )
                    with ExitStack() as stack:
                        if name == WATCHED:
                            stack.enter_context(watching(checkpoint))
                        query.awaitTermination()
                    progress = [each for each in query.recentProgress if each.numInputRows]
                    seconds[name] += [each.durationMs["triggerExecution"] / 1e3 for each in progress[WARM_UP:]]
                    self.tell(f"round {number + 1} of {rounds}: {name}")
        ratio = ratio_of_medians(seconds[WATCHED], seconds[ALONE])
        return [*batch_rows("watching", seconds), ratio.row("watched / not watched", better="lower")]


@contextmanager
def watching(checkpoint: Path) -> Iterator[None]:
    """Run ``unskew watch`` on a checkpoint, and a reader of its page, until the block ends."""
    while not (checkpoint / "unskew").exists():
        time.sleep(0.05)
    with ExitStack() as stack:
        words = [sys.executable, "-m", "unskew", "watch", str(checkpoint), "--no-open", "--json"]
        server = stack.enter_context(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        stack.callback(server.kill)
        assert server.stdout is not None
        url = json.loads("".join(server.stdout.readline() for _ in range(3)))["url"]
        reader = stack.enter_context(subprocess.Popen([sys.executable, "-c", READER, url]))
        stack.callback(reader.kill)
        yield
