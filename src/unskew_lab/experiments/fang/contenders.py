"""Figures 11 and 12: compact records, Readj and brute force."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.fang.judging import RISING, judge, near, show
from unskew_lab.experiments.fang.results import Results, trend


def judge_compact(r: Results) -> Iterator[Claim]:
    """Judge Figure 11: planning on compact records."""

    def at(measure: str, degree: int, how: object = np.median) -> float:
        return r.value(measure, how, figure="11", degree=degree)  # type: ignore[arg-type]

    degrees = sorted({t.degree for t, _ in r.rows if t.figure == "11" and t.degree >= 0})
    plain, compact = at("plan_seconds", -1), at("plan_seconds", 3)
    yield judge(
        "fig11-1",
        "compact records with R = 8 make planning ten times as fast",
        "6 s on keys, 0.6 s on records",
        f"{plain * 1e3:.1f} ms on keys, {compact * 1e3:.1f} ms on records ({at('records_seconds', 3) * 1e3:.1f} ms to "
        f"plan, the rest to find the keys again)",
        plain >= 10 * compact,
        "planning on keys is itself several hundred times as fast as the paper's; what remains is one pass over a "
        "million keys, and finding the keys of a record again needs one too",
    )
    time = {2**d: at("records_seconds", d) for d in degrees}
    yield judge(
        "fig11-2",
        "the larger R, the faster",
        "time on records falls with R",
        show(time, 1e3, "ms"),
        trend(time) <= -RISING,
    )
    error = {2**d: at("load_error", d) for d in degrees}
    yield judge(
        "fig11-3",
        "the larger R, the larger the error of the estimated loads",
        "error rises with R",
        show(error),
        trend(error) >= RISING,
    )
    worst = max(at("load_error", d, max) for d in degrees)
    yield judge("fig11-4", "the error never exceeds 1 % for R up to 256", "0.01", f"{worst:.4f}", worst <= 0.01)


def judge_rates(r: Results) -> Iterator[Claim]:
    """Judge Figure 12: Mixed, MixedBF and Readj as the stream fluctuates more."""
    rates = list(r.curve("plan_seconds", "rate", figure="12", planner="mixed"))
    best = {rate: _best_scale(r, rate) for rate in rates}
    readj = {
        m: {f: r.value(m, figure="12", planner="readj", rate=f, threshold_scale=best[f]) for f in rates}
        for m in ("plan_seconds", "migration_share", "overload_after")
    }
    mixed, brute = (
        {m: r.curve(m, "rate", figure="12", planner=p) for m in ("plan_seconds", "migration_share")}
        for p in ("mixed", "mixedbf")
    )
    choice = (
        f"Readj at the sigma that balances best ({show(best)}); it ends at {show(readj['overload_after'])} overload"
    )
    faster = {f: readj["plan_seconds"][f] / mixed["plan_seconds"][f] for f in rates}
    yield judge(
        "fig12-1",
        "Mixed plans much faster than Readj",
        "at least 5 times as fast",
        show(faster),
        min(faster.values()) >= 5,
        choice,
    )
    yield judge(
        "fig12-2",
        "Readj takes longer the more the stream fluctuates",
        "time rises with f",
        show(readj["plan_seconds"], 1e3, "ms"),
        trend(readj["plan_seconds"]) >= 0.6 and readj["plan_seconds"][rates[-1]] > readj["plan_seconds"][rates[0]],
        choice,
    )
    slower = {f: brute["plan_seconds"][f] / mixed["plan_seconds"][f] for f in rates}
    yield judge(
        "fig12-3",
        "MixedBF is slow",
        "at least twice the time of Mixed",
        show(slower),
        min(slower.values()) >= 2,
        "it tries every amount of cleaning, so it costs what the table holds",
    )
    alike = {f: brute["migration_share"][f] / mixed["migration_share"][f] for f in rates}
    yield judge(
        "fig12-4",
        "MixedBF migrates about as much as Mixed",
        "1 within 30 %",
        show(alike),
        all(near(x, 1) for x in alike.values()),
    )
    growth = {
        name: figures["migration_share"][rates[-1]] - figures["migration_share"][rates[0]]
        for name, figures in (("mixed", mixed), ("readj", readj))
    }
    yield judge(
        "fig12-5",
        "with rising fluctuation the migration of Mixed grows more slowly than that of Readj",
        "share of state moved grows by less",
        show(growth),
        growth["mixed"] < growth["readj"],
        choice,
    )


def _best_scale(r: Results, rate: float) -> float:
    """Return the sigma with which Readj ends best balanced."""
    overload = r.curve("overload_after", "threshold_scale", figure="12", planner="readj", rate=rate)
    return float(min(overload, key=lambda scale: overload[scale]))
