"""Figures 7 to 12 and 17 to 21 and the theorems: what our trials say about the paper's claims."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from unskew_lab.experiments.claims import Finding, mean, near
from unskew_lab.experiments.fang.results import Curve, Results, Summary, trend

# A rank correlation from which a curve counts as rising, and the relative distance up to which numbers agree
RISING, NEAR = 0.8, 0.3

BOTH = ("mixed", "mintable")


def mixed_over_mintable(r: Results, measure: str, over: str, how: Summary = np.mean, **where: Any) -> Curve:
    """Return the measure of Mixed over that of MinTable."""
    mixed, table = (r.curve(measure, over, how, planner=p, **where) for p in BOTH)
    return {x: mixed[x] / table[x] for x in mixed if table[x] > 0}


def cheaper_with_history(id: str, r: Results, over: str, figure: str, planners: tuple[str, ...]) -> Finding:
    """Judge whether the longer window makes migration cheaper, over a sweep."""
    ratios = {}
    for planner in planners:
        one, five = (
            r.curve("migration_share", over, figure=figure, planner=planner, window=window) for window in (1, 5)
        )
        ratios.update({f"{planner} {x}": five[x] / one[x] for x in one if one[x] > 0})
    return id, show(ratios), max(ratios.values()) < 1


def show(curve: Curve, scale: float = 1.0, unit: str = "") -> str:
    """Return a curve as text."""
    return ", ".join(f"{number(x)}: {number(y * scale)}{unit and ' ' + unit}" for x, y in curve.items())


def number(x: object) -> str:
    """Return a number with three digits, or whole from a thousand on; anything else as it is."""
    if not isinstance(x, int | float):
        return str(x)
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"


def judge_skew(r: Results) -> Iterator[Finding]:
    """Judge Figure 7: how uneven hashing alone is."""
    spread = r.curve("sorted_loads", "channels", _max_over_min, figure="7a")
    yield "fig7a-1", show(spread), trend(spread) >= RISING
    yield "fig7a-2", f"{spread[40]:.2f}", near(spread[40], 2.5, NEAR)
    spread = r.curve("sorted_loads", "keys", _max_over_min, figure="7b")
    yield "fig7b-1", show(spread), trend(spread) <= -RISING
    yield "fig7b-2", f"{spread[5000]:.2f}", near(spread[5000], 4, NEAR)


def judge_channels(r: Results) -> Iterator[Finding]:
    """Judge Figure 8: the number of channels."""
    ratio = mixed_over_mintable(r, "plan_seconds", "channels", np.median, figure="8", window=1)
    yield "fig8-1", show(ratio), 1 < mean(ratio) <= 2
    for window in (1, 5):
        moved = mixed_over_mintable(r, "migration_share", "channels", figure="8", window=window)
        few = {n: x for n, x in moved.items() if n <= 35}
        yield f"fig8-2-w{window}", show(few), mean(few) <= 0.7
        yield (
            f"fig8-3-w{window}",
            show({n: x for n, x in moved.items() if n >= 35}),
            moved[35] < 0.9 and moved[40] > 0.9,
        )
    yield cheaper_with_history("fig8-4", r, "channels", "8", ("mixed",))


def judge_tolerances(r: Results) -> Iterator[Finding]:
    """Judge Figure 9: the tolerance."""
    time = r.curve("plan_seconds", "tolerance", np.median, figure="9", planner="mixed", window=1)
    yield "fig9-1", show(time, 1e3, "ms"), trend(time) <= -RISING
    ratio = mixed_over_mintable(r, "plan_seconds", "tolerance", np.median, figure="9", window=1)
    loose = {t: x for t, x in ratio.items() if t >= 0.2}
    yield "fig9-2", show(loose), mean(loose) <= 1.25
    moved = r.curve("migration_share", "tolerance", figure="9", planner="mixed", window=1)
    yield "fig9-3", show(moved), trend(moved) <= -RISING
    for window in (1, 5):
        below = mixed_over_mintable(r, "migration_share", "tolerance", figure="9", window=window)
        times = {t: 1 / x for t, x in below.items() if t <= 0.1}
        yield f"fig9-4-w{window}", show(times), near(mean(times), 3, NEAR)
    slowest = r.value("plan_seconds", max, figure="9", planner="mixed", tolerance=0.02, window=1)
    yield "fig9-5", f"{slowest:.4f} s", slowest < 1
    yield cheaper_with_history("fig9-6", r, "tolerance", "9", ("mixed",))


def judge_keys(r: Results) -> Iterator[Finding]:
    """Judge Figure 10: the number of keys."""
    ratio = mixed_over_mintable(r, "plan_seconds", "keys", np.median, figure="10", window=1)
    yield "fig10-1", show(ratio), mean(ratio) > 1
    moved = mixed_over_mintable(r, "migration_share", "keys", figure="10", window=1)
    yield "fig10-2", show(moved), max(moved.values()) < 1
    mixed = r.curve("plan_seconds", "keys", np.median, figure="10", planner="mixed", window=1)
    yield "fig10-3", show(mixed, 1e3, "ms"), max(mixed.values()) <= 3 * min(mixed.values())
    yield cheaper_with_history("fig10-4", r, "keys", "10", BOTH)


def _max_over_min(loads: list[float]) -> float:
    return max(loads) / min(loads)


def judge_compact(r: Results) -> Iterator[Finding]:
    """Judge Figure 11: planning on compact records."""

    def at(measure: str, degree: int, how: object = np.median) -> float:
        return r.value(measure, how, figure="11", degree=degree)  # type: ignore[arg-type]

    degrees = sorted({t.degree for t, _ in r.rows if t.figure == "11" and t.degree >= 0})
    plain, compact = at("plan_seconds", -1), at("plan_seconds", 3)
    yield (
        "fig11-1",
        f"{plain * 1e3:.1f} ms on keys, {compact * 1e3:.1f} ms on records ({at('records_seconds', 3) * 1e3:.1f} ms to "
        f"plan, the rest to find the keys again)",
        plain >= 10 * compact,
    )
    time = {2**d: at("records_seconds", d) for d in degrees}
    yield "fig11-2", show(time, 1e3, "ms"), trend(time) <= -RISING
    error = {2**d: at("load_error", d) for d in degrees}
    yield "fig11-3", show(error), trend(error) >= RISING
    worst = max(at("load_error", d, max) for d in degrees)
    yield "fig11-4", f"{worst:.4f}", worst <= 0.01


def judge_rates(r: Results) -> Iterator[Finding]:
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
    words = {"best": show(best), "overload": show(readj["overload_after"])}
    faster = {f: readj["plan_seconds"][f] / mixed["plan_seconds"][f] for f in rates}
    yield "fig12-1", show(faster), min(faster.values()) >= 5, words
    yield (
        "fig12-2",
        show(readj["plan_seconds"], 1e3, "ms"),
        trend(readj["plan_seconds"]) >= 0.6 and readj["plan_seconds"][rates[-1]] > readj["plan_seconds"][rates[0]],
        words,
    )
    slower = {f: brute["plan_seconds"][f] / mixed["plan_seconds"][f] for f in rates}
    yield "fig12-3", show(slower), min(slower.values()) >= 2
    alike = {f: brute["migration_share"][f] / mixed["migration_share"][f] for f in rates}
    yield "fig12-4", show(alike), all(near(x, 1, NEAR) for x in alike.values())
    growth = {
        name: figures["migration_share"][rates[-1]] - figures["migration_share"][rates[0]]
        for name, figures in (("mixed", mixed), ("readj", readj))
    }
    yield "fig12-5", show(growth), growth["mixed"] < growth["readj"], words


def _best_scale(r: Results, rate: float) -> float:
    overload = r.curve("overload_after", "threshold_scale", figure="12", planner="readj", rate=rate)
    return float(min(overload, key=lambda scale: overload[scale]))


def judge_tables(r: Results) -> Iterator[Finding]:
    """Judge Figures 17 and 18: how large a table must be, and how large it grows."""
    needed = {n: {t: _sufficient_cap(r, n, t) for t in (0.02, 0.08, 0.15, 0.30)} for n in (15, 30)}
    curve = r.curve("migration_share", "table_cap", figure="17", tolerance=0.08, channels=30)
    caps = list(curve)
    yield (
        "fig17-1",
        f"{show(curve)}; least sufficient cap with 30 channels "
        f"{number(needed[30][0.08])}, with 15 {number(needed[15][0.08])}",
        1024 < needed[30][0.08] <= 4096 and curve[caps[0]] >= 1.2 * curve[caps[-1]],
    )
    yield (
        "fig17-2",
        f"30 channels {show(needed[30])}; 15 channels {show(needed[15])}",
        all(_never_rises(list(caps.values())) for caps in needed.values()),
    )
    tolerances = list(r.curve("table_size", "tolerance", figure="18"))
    grown = {t: r.series("table_size", figure="18", tolerance=t) for t in tolerances}
    after = {t: sizes[511] for t, sizes in grown.items()}
    yield "fig18-1", show(after), trend(after) <= -RISING
    final = {t: sizes[-1] for t, sizes in grown.items()}
    yield "fig18-2", show(final), all(abs(size / 9350 - 1) <= 0.05 for size in final.values())


def judge_windows(r: Results) -> Iterator[Finding]:
    """Judge Figures 19 to 21: the window and the exponent."""
    ratio = mixed_over_mintable(r, "migration_share", "window", figure="19")
    yield "fig19-1", show(ratio), max(ratio.values()) < 1
    moved = r.curve("migration_share", "window", figure="19", planner="mixed")
    yield "fig19-2", show(moved), trend(moved) <= -RISING
    size = r.curve("table_size", "exponent", figure="20")
    yield "fig20-1", show(size), size[2.0] < size[1.0] and trend(size) <= 0
    flat = [x for beta, x in size.items() if beta >= 1.5]
    yield "fig20-2", show({b: x for b, x in size.items() if b >= 1.5}), max(flat) <= 1.1 * min(flat)
    moved = r.curve("migration_share", "exponent", figure="20")
    yield "fig21-1", show(moved), moved[2.0] > moved[1.0]


def judge_theorems(r: Results) -> Iterator[Finding]:
    """Judge the theorems, and what the text says of Mixed."""
    tried = int(sum(r.values("instances", figure="theorems")))
    names = ("theorem_1", "theorem_2", "theorem_4", "table", "migration", "theorem_2_fallback", "theorem_4_fallback")
    failed = {name: int(sum(r.values(name, figure="theorems"))) for name in names}
    for name in names[:5]:
        id = name.replace("_", "-") if name.startswith("theorem") else f"trend-{name}"
        rescued = {"fallback": failed.get(f"{name}_fallback", 0)}
        yield id, f"fails in {failed[name]} of {tried} random problems", failed[name] == 0, rescued
    skewed, equal = (r.value(f"deviation_{kind}", figure="theorems") for kind in ("zipf", "equal"))
    yield (
        "theorem-3",
        f"{skewed:.5f} of the sum for Zipf counts with R = 8; {equal:.2f} if all values are 180 and R = 256",
        max(skewed, equal) <= 0.01,
    )


def _sufficient_cap(r: Results, channels: int, tolerance: float) -> float:
    """Return the smallest cap at which Mixed no longer overflows."""
    overflowing = r.curve("table_overflow", "table_cap", figure="17", channels=channels, tolerance=tolerance)
    return float(min((cap for cap, share in overflowing.items() if share == 0), default=2 * max(overflowing)))


def _never_rises(values: list[float]) -> bool:
    return values[0] > values[-1] and all(a >= b for a, b in pairwise(values))
