"""How fast tuples are split, on one core, given their hashes."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unskew.routing import RoutingTable
from unskew.splitters import SplitKeys, Splitter, candidates, splitter
from unskew_lab.bench.harness import Benchmark, Row, interleave
from unskew_lab.bench.split_streams import split_stream_rows
from unskew_lab.bench.zipf import zipf_hashes

OURS, PLAIN = "unskew", "plain Python"
WORKERS = 100
SPLIT_SHARE = 1 / WORKERS


class SplittersBenchmark(Benchmark):
    """Split tuples over a hundred channels, from hashes to channels and loads.

    Plain Python is given each tuple's two candidates, which unskew computes.

    Keys follow Zipf's law at exponent 1.2, where two choices are not enough and the number of choices is computed; at
    1.0 and 1.4 there are more new keys to count and more choices to compare. Then come a routing table's rows: its
    split entries, and the same look-up without any. The last rows are whole queries on Spark.
    """

    name: ClassVar[str] = "splitters"
    summary: ClassVar[str] = "split tuples over a hundred channels, on one core"

    def run(self, quick: bool) -> list[Row]:
        tuples, repeats = (4_000_000, 5) if quick else (10_000_000, 11)
        stream = zipf_hashes(tuples, 1.2)
        rows = _pkg_rows(stream, repeats)
        rows += _scheme_rows("d-choices", splitter("d-choices"), stream, repeats, target=25)
        for name in ("w-choices", "key", "shuffle"):
            rows += _scheme_rows(name, splitter(name), stream, repeats)
        for choices in (4, 9):
            rows += _scheme_rows(f"greedy-d, {choices} choices", splitter("greedy-d", choices=choices), stream, repeats)
        for exponent in (1.0, 1.4):
            other = zipf_hashes(tuples, exponent)
            rows += _scheme_rows(f"pkg, Zipf {exponent}", splitter("pkg"), other, repeats)
            rows += _scheme_rows(f"d-choices, Zipf {exponent}", splitter("d-choices"), other, repeats)
        return [*rows, *_table_rows(stream, repeats), *split_stream_rows(quick)]


def plain_two_choices(pairs: list[list[int]], workers: int) -> list[int]:
    """Return the less loaded of each pair of channels, tuple by tuple."""
    loads, chosen = [0] * workers, []
    for first, second in pairs:
        channel = second if loads[second] < loads[first] else first
        loads[channel] += 1
        chosen.append(channel)
    return chosen


def _pkg_rows(stream: NDArray[np.int64], repeats: int) -> list[Row]:
    name = "pkg, two choices"
    part = stream[:200_000]
    pairs = candidates(part, WORKERS).tolist()
    times = interleave(
        {OURS: _call(splitter("pkg"), stream), PLAIN: lambda: plain_two_choices(pairs, WORKERS)},
        repeats=repeats,
    )
    ours, plain = len(stream) / times[OURS].median_seconds / 1e6, len(part) / times[PLAIN].median_seconds / 1e6
    return [
        Row(
            name, OURS, ours, "M tuples/s", ratio=ours / plain, target=50, samples=times[OURS].rates(len(stream) / 1e6)
        ),
        Row(name, PLAIN, plain, "M tuples/s"),
    ]


def _scheme_rows(
    name: str, scheme: Splitter, stream: NDArray[np.int64], repeats: int, target: float | None = None
) -> list[Row]:
    timing = interleave({OURS: _call(scheme, stream)}, repeats=repeats)[OURS]
    millions = len(stream) / 1e6
    speed, samples = millions / timing.median_seconds, timing.rates(millions)
    return [Row(name, OURS, speed, "M tuples/s", target=target, samples=samples)]


def _table_rows(stream: NDArray[np.int64], repeats: int) -> list[Row]:
    """Compare a table's look-up, as without splitting, with the look-up and the choice among split keys' candidates."""
    keys, tuples = np.unique(stream, return_counts=True)
    hot = keys[tuples >= SPLIT_SHARE * len(stream)]
    table = RoutingTable.initial(WORKERS).with_split(
        {
            int(key): tuple(row)
            for key, row in zip(hot, candidates(hot, WORKERS, 25, distinct=True).tolist(), strict=True)
        }
    )
    split, start = SplitKeys.of_table(table.split), np.zeros(WORKERS, np.int64)
    calls: dict[str, Callable[[], object]] = {
        "with split keys": lambda: split.route(stream, table.lookup(stream), start),
        "without": lambda: table.lookup(stream),
    }
    times = {name: timing.median_seconds for name, timing in interleave(calls, repeats=repeats).items()}
    speeds = {name: len(stream) / seconds / 1e6 for name, seconds in times.items()}
    name = f"routing table, {len(hot)} keys split"
    ratio = speeds["with split keys"] / speeds["without"]
    return [
        Row(name, "with split keys", speeds["with split keys"], "M tuples/s", ratio=ratio),
        Row(name, "without", speeds["without"], "M tuples/s"),
    ]


def _call(scheme: Splitter, stream: NDArray[np.int64]) -> Callable[[], object]:
    start = np.zeros(WORKERS, np.int64)
    return lambda: scheme.route(stream, start)
