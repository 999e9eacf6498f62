"""One trial: a stream through its sources to the workers, and what came of it."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.hashing import xxhash64
from unskew.splitters import splitter
from unskew.splitters.outcome import ImbalanceCurve, agreement, count_counters, imbalance_curve
from unskew.splitters.stream import SplitStream, feed_sources, split_stream
from unskew.workloads import workload
from unskew.workloads.span import Span
from unskew_lab.experiments.pkg.grid import Trial
from unskew_lab.experiments.runner import Measures

Hashes = NDArray[np.int64]

POINTS = 50  # of a curve over time
CHECKPOINTS = 20 * POINTS
DAYS = 28


def run_trial(trial: Trial) -> Measures:
    """Run a trial; a measure has a number for each number of workers and, for each of these, each family of hashes.

    ``curve N`` is the imbalance over time with N workers, the median over the families, point by point.
    """
    measures: Measures = defaultdict(list)
    if trial.figure in ("7", "9"):
        measures["top_share"] = [top_share(trial.data, trial.exponent, trial.keys, trial.messages)]
    for workers in trial.workers:
        curves = []
        for seed in range(trial.seeds):
            run = _split(trial, workers, seed, trial.estimate)
            curve = imbalance_curve(run, CHECKPOINTS)
            assert (curve.imbalance <= curve.bound + 1e-6).all()
            for name, value in _figures(trial, run, curve, seed).items():
                measures[name].append(value)
            curves.append(curve.imbalance / curve.tuples)
        if trial.figure == "5":
            step = len(curves[0]) // POINTS
            measures[f"curve {workers}"] = np.median(curves, axis=0)[step - 1 :: step].tolist()
    return dict(measures)


def _figures(trial: Trial, run: SplitStream, curve: ImbalanceCurve, seed: int) -> dict[str, float]:
    late = curve.imbalance[len(curve.tuples) // 5 :]
    found = {
        "tuples": float(curve.imbalance[-1]),
        "end": curve.at_end,
        "average": curve.average,
        "relative": curve.relative,
        "peak": float(late.max() / max(np.median(late), 1)),
    }
    if trial.figure == "6":
        found["equal"] = agreement(run, _split(trial, run.workers, seed, "global")).equal
    if trial.figure in ("memory", "beyond"):
        found["counters"] = float(count_counters(run).total)
    return found


def _split(trial: Trial, workers: int, seed: int, estimate: str) -> SplitStream:
    hashes = stream_of(trial.data, trial.exponent, trial.keys, trial.messages)
    options = {"choices": trial.choices} if trial.choices else {}
    sources = feed_sources(hashes, trial.sources)
    if trial.feed == "hash":
        begins = edge_sources(trial.exponent, trial.keys, trial.messages)
        sources = feed_sources(begins, trial.sources, "hash")
    probe_tuples = max(1, len(hashes) // trial.probes) if trial.probes else len(hashes)
    scheme = splitter(trial.scheme, seed=seed, **options)
    return split_stream(
        scheme,
        hashes,
        workers,
        sources=sources,
        estimate=estimate,  # type: ignore[arg-type]
        probe_tuples=probe_tuples,
    )


@lru_cache(maxsize=3)
def stream_of(data: str, exponent: float, keys: int, messages: int) -> Hashes:
    """Return the hashes of a stream's keys; kept for the next trial of the process."""
    options = {"exponent": exponent, "keys": keys} if data in ("zipf", "edges") else {}
    source = workload(data, **({"key": "tailnum"} if data == "flights" else options))
    if data == "ct":  # the hottest symbols change places every week, so it takes four of them
        ids = np.concatenate([source.keys(day, messages // DAYS) for day in range(DAYS)])
    else:
        ids = source.keys(0, messages)
    return xxhash64([pa.array(ids)])


@lru_cache(maxsize=2)
def edge_sources(exponent: float, keys: int, messages: int) -> Hashes:
    """Return hashes of the vertices where the edges begin."""
    edges = workload("edges", exponent=exponent, keys=keys)
    return xxhash64([edges.extra_columns(Span.partition(0, messages))["source"]])


@lru_cache(maxsize=64)
def top_share(data: str, exponent: float, keys: int, messages: int) -> float:
    """Return the share of the hottest key (p1), as it came out in the stream."""
    hashes = stream_of(data, exponent, keys, messages)
    counts = pa.array(hashes).value_counts().field("counts")
    return float(np.max(counts.to_numpy()) / len(hashes))
