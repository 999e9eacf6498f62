"""One trial: the number of channels grows one by one, and the table is rebuilt at each step."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from unskew.hashing import xxhash64
from unskew.load.metrics import combined_imbalance, migration_cost, relative_imbalance, relative_migration
from unskew.load.resources import resource_function
from unskew.planners import Memory, Problem
from unskew.planners.gedik import Readj, Redist, Scan
from unskew.planners.gedik.base import GedikPlanner
from unskew.planners.gedik.threshold import threshold_before_counting
from unskew.routing.ring import Ring
from unskew.sketches import LossyCounting
from unskew_lab.experiments.gedik.grid import TABLES, Trial
from unskew_lab.experiments.runner import Measures, cpu_seconds

Column = NDArray[np.float64]
Channels = NDArray[np.int32]

COUNTED_TUPLES = 3_000_000
NAMES = {"C": "constant", "L": "linear", "Q": "quadratic"}


def run_trial(trial: Trial) -> Measures:
    """Run one trial; each measure has a number for each number of channels measured."""
    if trial.method == "counter":
        return _count_stream(trial)
    return _follow_table(trial) if trial.method in TABLES else _follow_hash(trial)


def _follow_hash(trial: Trial) -> Measures:
    measures: Measures = defaultdict(list)
    for channels in range(2 if trial.every else trial.channels, trial.channels + 1):
        before, after = (hashed(trial.method, trial.keys, n, trial.seed) for n in (channels - 1, channels))
        _note(trial, channels, before, after, measures)
    return dict(measures)


def _follow_table(trial: Trial) -> Measures:
    """Build table after table. As shares fall with the key's rank, a table is the owners of the first so many keys."""
    measures: Measures = defaultdict(list)
    table = np.empty(0, np.int32)
    for channels in range(2, trial.channels + 1):
        gedik = planner_of(trial, channels)
        problem = _problem(trial, gedik, channels, table)
        hot = len(gedik.hot_keys(problem))
        owner, timed = _timed_assign(gedik, problem)
        if trial.every or channels == trial.channels:
            before, after = (hashed("ring", trial.keys, n, trial.seed).copy() for n in (channels - 1, channels))
            before[: len(table)], after[:hot] = table, owner[:hot]
            _note(trial, channels, before, after, measures)
            for name, value in {"table": hot, "ring_seconds": _ring_seconds(channels), **timed}.items():
                measures[name].append(float(value))
        table = owner[:hot]
    return dict(measures)


def _problem(trial: Trial, gedik: GedikPlanner, channels: int, table: Channels) -> Problem:
    """List the keys that can matter, with all others as background."""
    share = zipf_shares(trial.keys, trial.skew)
    listed = max(len(table), int(np.searchsorted(-share, -9 * gedik.count_error, side="right")))
    keys = np.arange(listed)
    homes = [Ring(n, seed=trial.seed).lookup(keys) for n in (channels - 1, channels)]
    background = np.full(channels, share[listed:].sum() / channels)
    if trial.option == "untracked":
        others = hashed("ring", trial.keys, channels, trial.seed)[listed:]
        background = np.bincount(others, share[listed:], channels).astype(np.float64)
    return Problem(
        channels=channels,
        channels_before=channels - 1,
        hashes=keys,
        tuples=share[:listed],
        cost=share[:listed],
        state=share[:listed],
        current=np.concatenate([table, homes[0][len(table) :]]),
        home=homes[1],
        background_tuples=background,
        background_cost=background,
        background_state=background,
        background_cost_before=np.full(channels - 1, background.sum() / (channels - 1)),
        background_state_moved=0.0,
        distinct_keys=float(trial.keys),
    )


def _timed_assign(gedik: GedikPlanner, problem: Problem) -> tuple[Channels, dict[str, float]]:
    """Return the owners, and CPU time of all and of placing alone: the least of three attempts after a first one."""
    gedik.assign(problem, Memory())
    answer, seconds = cpu_seconds(lambda: gedik.assign(problem, Memory()), calls=3)
    placing, hot = 0.0, gedik.hot_keys(problem)
    if len(hot):
        items = gedik.items(problem, hot)
        _, placing = cpu_seconds(lambda: gedik.place(items), calls=3)
    return answer.owner, {"seconds": seconds, "placing_seconds": placing}


def _ring_seconds(channels: int) -> float:
    return cpu_seconds(lambda: Ring(channels, seed=1).lookup(np.arange(1)), calls=1)[1]


def _note(trial: Trial, channels: int, before: Channels, after: Channels, measures: Measures) -> None:
    """Add what the step to `channels` costs, and how balanced all keys are after it."""
    share = zipf_shares(trial.keys, trial.skew)
    by_resource = [resource_function(NAMES[letter])(share) for letter in trial.resources]
    state, loads = by_resource[0], [np.bincount(after, load, channels) for load in by_resource]
    relative = [relative_imbalance(load, trial.balance_ratio) for load in loads]
    cost = migration_cost(state, before, after)
    for name, value in {
        "channels": channels,
        "m": relative_migration(cost, float(state.sum()), channels - 1, channels),
        "b": combined_imbalance(relative),
        "b_memory": relative[0],
        "b_compute": relative[1],
        "b_network": relative[2],
    }.items():
        measures[name].append(float(value))


def _count_stream(trial: Trial) -> Measures:
    """Count the entries of a lossy counter sized for the threshold: a mean over its last window."""
    counter = LossyCounting(planner_of(trial, trial.channels).count_error)
    windows = max(1, COUNTED_TUPLES // counter.window)
    cumulated = np.cumsum(zipf_shares(trial.keys, trial.skew))
    drawn = np.random.default_rng(trial.seed).random(windows * counter.window) * cumulated[-1]
    stream = np.searchsorted(cumulated, drawn)
    counter.update(stream[: (windows - 1) * counter.window])
    held = [len(counter)]
    for part in np.array_split(stream[(windows - 1) * counter.window : -1], 50):
        counter.update(part)
        held.append(len(counter))
    return {"entries": [float(np.mean(held))], "entries_least": [float(held[0])], "entries_most": [float(held[-1])]}


def planner_of(trial: Trial, channels: int) -> GedikPlanner:
    """Return the planner of a trial; its counts may be low by a tenth of the threshold, as in the paper."""
    memory, compute, network = (NAMES[letter] for letter in trial.resources)
    kind = {"scan": Scan, "redist": Redist, "readj": Readj}.get(trial.method, Scan)
    exact: GedikPlanner = kind(
        balance_ratio=trial.balance_ratio,
        threshold_scale=trial.scale,
        utility=trial.utility,
        memory=memory,
        compute=compute,
        network=network,
        include_untracked_load=trial.option == "untracked",
        **({"require_positive_gain": True} if trial.option == "positive" else {}),
    )
    resources, deviations = exact.resources(), exact.deviations(channels)
    threshold = threshold_before_counting(resources, deviations, channels, float(trial.keys), trial.scale)
    return replace(exact, count_error=0.1 * threshold)


@lru_cache(maxsize=2)
def zipf_shares(keys: int, skew: float) -> Column:
    """Return the exact shares of a Zipf distribution, falling with the rank."""
    weight = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    shares: Column = weight / weight.sum()
    return shares


@lru_cache(maxsize=4)
def hashed(method: str, keys: int, channels: int, seed: int) -> Channels:
    """Return the channel of every key under hashing alone; keys are their ranks, from 0."""
    ranks = np.arange(keys)
    if method == "ring":
        return Ring(channels, seed=seed).lookup(ranks)
    if method == "uniform-hash":
        ranks = xxhash64([pa.array(ranks + seed * keys)])
    return np.mod(ranks, channels).astype(np.int32)
