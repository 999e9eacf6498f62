"""How long planning takes, next to the same ideas in plain Python on sizes that those can finish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from unskew.load.metrics import tolerated_deviation
from unskew.planners import Memory, Planner, Problem, planner
from unskew.planners.fang.mixed import Mixed
from unskew.planners.fang.records import Records
from unskew.sketches import LossyCounting
from unskew_lab.bench.harness import Benchmark, Row, interleave
from unskew_lab.bench.plain import plain_best_fit, plain_lossy_counting, plain_min_mig, plain_scan
from unskew_lab.bench.zipf import zipf_hashes, zipf_shares

OURS, PLAIN = "unskew", "plain Python"
CHANNELS = 20
MILLION = 1_000_000
PLAIN_KEYS = 10_000
COUNTED_KEYS = 30_000


class PlannersBenchmark(Benchmark):
    """Plan for a million keys and more, as between two batches, and count frequent keys.

    Every call is timed from arrays to owners, without compilation. Rows of plain Python say on how many keys; the
    ratio compares times per key there. Growth is the exponent of the time over 10^4, 10^5 and 10^6 keys.
    """

    name: ClassVar[str] = "planners"
    summary: ClassVar[str] = "plan for up to ten million keys, and count frequent ones"

    def run(self, quick: bool) -> list[Row]:
        repeats = 5 if quick else 15
        rows: list[Row] = []
        for name in ("mixed", "mintable", "minmig"):
            rows += _fang_rows(name, repeats)
        if not quick:
            rows.append(_ours("mixed, 10,000,000 keys", _call(planner("mixed"), drifted(10 * MILLION)), 3, 600))
        rows.append(_compact_row(repeats))
        rows += _gedik_rows(repeats)
        rows += _smalops_rows(repeats)
        return [*rows, *_counting_rows(repeats, MILLION if quick else 10 * MILLION)]


def drifted(keys: int, channels: int = CHANNELS, seed: int = 0) -> Problem:
    """Return a problem after a drift: Zipf 0.85 costs, the thousand hottest keys mostly on half of the channels."""
    rng = np.random.default_rng(seed)
    cost = rng.permutation(20 * keys * zipf_shares(keys, 0.85))
    home = rng.integers(0, channels, keys).astype(np.int32)
    hottest = np.argpartition(-cost, min(1000, keys - 1))[:1000]
    home[hottest] = np.minimum(rng.integers(0, channels, len(hottest)), rng.integers(0, channels, len(hottest)))
    current = home.copy()
    away = rng.choice(keys, min(1500, keys // 10), replace=False)
    current[away] = rng.integers(0, channels, len(away))
    return Problem.of_keys(cost, state=cost * rng.uniform(0.5, 2, keys), channels=channels, current=current, home=home)


def hot_keys(seed: int = 0) -> Problem:
    """Return Gedik's default setting: a million keys with Zipf 1 frequencies, from nine channels to ten.

    The 30,000 most frequent keys are listed, about what the paper's counters hold at sigma 0.008; the rest is
    background.
    """
    rng = np.random.default_rng(seed)
    share = zipf_shares(MILLION, 1.0)
    listed, rest = rng.permutation(share[:COUNTED_KEYS]), share[COUNTED_KEYS:].sum() / 10
    home = rng.integers(0, 10, COUNTED_KEYS).astype(np.int32)
    current = np.where(home == 9, rng.integers(0, 9, COUNTED_KEYS), home)
    problem = Problem.of_keys(listed, channels=10, current=current, home=home)
    background = np.full(10, rest)
    return replace(problem, background_tuples=background, background_cost=background, distinct_keys=float(MILLION))


def _fang_rows(name: str, repeats: int) -> list[Row]:
    chosen = planner(name)
    sizes = [10_000, 100_000, MILLION]
    calls = {f"{keys}": _call(chosen, drifted(keys)) for keys in sizes}
    timings = list(interleave(calls, repeats=repeats).values())
    times, samples = [timing.median_seconds for timing in timings], timings[-1].scaled(1e3)
    row = Row(f"{name}, 1,000,000 keys", OURS, times[-1] * 1e3, "ms", target=50, better="lower", samples=samples)
    growth = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    rows = [row, Row(f"{name}, growth with keys", OURS, growth, "exponent")]
    if name != "minmig":
        return rows
    problem = drifted(PLAIN_KEYS)
    slow = interleave({PLAIN: lambda: plain_min_mig(problem, chosen.tolerance)}, repeats=2)[PLAIN].median_seconds
    ours, plain = f"{name}, {PLAIN_KEYS:,} keys", Row(f"{name}, {PLAIN_KEYS:,} keys", PLAIN, slow * 1e3, "ms")
    return [*rows, Row(ours, OURS, times[0] * 1e3, "ms", ratio=times[0] / slow), plain]


def _compact_row(repeats: int) -> Row:
    problem, chosen = drifted(MILLION), Mixed()
    records, _ = Records.of_keys(problem.cost, problem.state, problem.current, problem.home, degree=3)
    name = "mixed on compact records (R = 8), 1,000,000 keys"
    return _ours(name, lambda: chosen.plan_records(records, problem.background_cost), repeats, 20)


def _gedik_rows(repeats: int) -> list[Row]:
    problem = hot_keys()
    rows = [
        _ours(
            f"{name} at sigma 0.008",
            _call(planner(name, threshold_scale=0.008, balance_ratio=1.2), problem),
            repeats,
            target,
        )
        for name, target in (("readj", 50), ("redist", 20), ("scan", 5))
    ]
    hottest = np.argsort(-problem.tuples)[:492]
    share, current = problem.tuples[hottest].tolist(), problem.current[hottest].tolist()
    deviation = tolerated_deviation(1.2, problem.channels)
    slow = interleave({PLAIN: lambda: plain_scan(share, current, problem.channels, deviation)}, repeats=2)[PLAIN]
    return [*rows, Row("scan at sigma 0.008", PLAIN, slow.median_seconds * 1e3, "ms")]


def _smalops_rows(repeats: int) -> list[Row]:
    chosen = planner("smalops", hot_by="listed", first_place="stay")
    many, few = drifted(100_000), drifted(PLAIN_KEYS)
    load, current = few.cost.tolist(), few.current.tolist()
    ours = interleave({"many": _call(chosen, many), "few": _call(chosen, few)}, repeats=repeats)
    many_ms, samples = ours["many"].median_seconds * 1e3, ours["many"].scaled(1e3)
    slow = interleave({PLAIN: lambda: plain_best_fit(load, current, few.channels)}, repeats=2)[PLAIN].median_seconds
    quick, name = ours["few"].median_seconds, f"smalops, {PLAIN_KEYS:,} hot keys"
    return [
        Row("smalops, 100,000 hot keys", OURS, many_ms, "ms", target=50, better="lower", samples=samples),
        Row(name, OURS, quick * 1e3, "ms", ratio=quick / slow),
        Row(name, PLAIN, slow * 1e3, "ms"),
    ]


def _counting_rows(repeats: int, tuples: int) -> list[Row]:
    stream = zipf_hashes(tuples)
    part = stream[: min(tuples, MILLION)].tolist()
    LossyCounting(1e-4).update(stream[:1000])
    times = interleave(
        {OURS: lambda: LossyCounting(1e-4).update(stream), PLAIN: lambda: plain_lossy_counting(part, 1e-4)},
        repeats=min(repeats, 5),
    )
    ours, plain = tuples / times[OURS].median_seconds / 1e6, len(part) / times[PLAIN].median_seconds / 1e6
    name = "lossy counting, epsilon 1e-4"
    return [
        Row(name, OURS, ours, "M tuples/s", ratio=ours / plain, target=20, samples=times[OURS].rates(tuples / 1e6)),
        Row(name, PLAIN, plain, "M tuples/s"),
    ]


def _call(chosen: Planner, problem: Problem) -> Callable[[], object]:
    return lambda: chosen.assign(problem, Memory())


def _ours(name: str, call: Callable[[], object], repeats: int, target_ms: float) -> Row:
    timing = interleave({OURS: call}, repeats=repeats)[OURS]
    samples = timing.scaled(1e3)
    return Row(name, OURS, timing.median_seconds * 1e3, "ms", target=target_ms, better="lower", samples=samples)
