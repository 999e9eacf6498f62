"""From what was measured to the rows of the report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from unskew_lab.bench.harness import Row
from unskew_lab.bench.race.contenders import HASH, IDEAL, Contender, best_of
from unskew_lab.bench.race.measures import UTILISATION, Measured, batches_until_even, by_chance, event_latencies
from unskew_lab.bench.race.race import Setup
from unskew_lab.bench.race.streams import Stream

THROUGHPUT = f"throughput over {IDEAL}"
WORK = "throughput if a batch had no fixed cost"
UNEVEN = "batches until even again"


def rows_of(
    stream: Stream, contenders: Sequence[Contender], setup: Setup, results: Mapping[str, Measured]
) -> list[Row]:
    """Return all measures of all contenders; of variants, those of the best."""
    best = best_of({name: measured.total_seconds for name, measured in results.items()})
    known = {each.name: each for each in contenders}
    return [
        row
        for shared, name in best.items()
        for row in _measures(stream, replace(known[name], name=shared), setup, results[name], results)
    ]


def _measures(
    stream: Stream, contender: Contender, setup: Setup, measured: Measured, results: Mapping[str, Measured]
) -> Iterator[Row]:
    where, who, ideal = stream.name, contender.name, results[IDEAL]
    total, p = measured.total_seconds, np.quantile(measured.seconds, [0.5, 0.95, 0.99])
    over_hash = results[HASH].total_seconds / total if HASH in results else None
    yield Row(f"{where}: {THROUGHPUT}", who, ideal.total_seconds / total, "x", ratio=over_hash)
    even = 1.0 if contender.even else measured.even_share
    yield Row(f"{where}: {WORK}", who, even, "x")
    yield Row(f"{where}: batch, median", who, float(p[0]), "s", better="lower", samples=measured.seconds)
    yield Row(f"{where}: batch, 95 %", who, float(p[1]), "s", better="lower")
    yield Row(f"{where}: batch, 99 %", who, float(p[2]), "s", better="lower")
    latency = event_latencies(measured.seconds, float(np.mean(ideal.seconds)) / UTILISATION)
    yield Row(f"{where}: event latency, median", who, float(np.median(latency)), "s", better="lower")
    yield Row(f"{where}: event latency, 99 %", who, float(np.quantile(latency, 0.99)), "s", better="lower")
    if contender.even:
        fixed = float(p[0]) - setup.work_seconds
        yield Row(f"{where}: fixed cost of a batch", who, fixed, "s", ratio=fixed / float(p[0]), better="lower")
        return
    overload = measured.overload
    yield Row(f"{where}: overload, median", who, float(np.median(overload)), "", better="lower", samples=overload)
    if contender.one_owner:
        changes = stream.changes if setup.resize_to is None else measured.resized or stream.changes
        limit = contender.tolerance + by_chance(stream.rows / setup.channels)
        waits = batches_until_even(overload, changes, limit, none=float(stream.hold))
        yield Row(f"{where}: {UNEVEN}", who, float(np.max(waits)), "", better="lower", samples=waits)
        yield Row(f"{where}: state moved a batch", who, 100 * measured.moved_share, "%", better="lower")
        yield Row(f"{where}: keys in the table", who, float(max(measured.table_keys)), "", better="lower")
    if measured.planning_seconds and contender.one_owner:
        plan = 1e3 * float(np.median(measured.planning_seconds))
        yield Row(f"{where}: plan", who, plan, "ms", better="lower")
