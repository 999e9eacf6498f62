"""Claims on balance and migration over skew, threshold scale and channels: Figures 3 to 6."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from unskew_lab.experiments.claims import Finding, mean, near
from unskew_lab.experiments.gedik.grid import METHODS, MOST_CHANNELS, RESOURCES, TABLES
from unskew_lab.experiments.gedik.results import Curve, Results, between, linearity, percent, show

UNIFORM = ("uniform", "uniform-hash")


def judge_figure_3(r: Results) -> Iterator[Finding]:
    """Judge the radar charts: migration and imbalance by resource functions, ten channels, skew 1."""
    b, m = ({c: {x: r.value(name, x, resources=c) for x in METHODS} for c in RESOURCES} for name in ("b", "m"))
    uniform = {f"{c} {u}": m[c][u] for c in RESOURCES for u in UNIFORM}
    compute = {x: r.value("b_compute", x, resources="LQL") for x in METHODS}
    ours_b, ours_m = ({t: table["LLL"][t] for t in TABLES} for table in (b, m))
    both_b, both_m = ({t: ours[t] for t in ("redist", "scan")} for ours in (ours_b, ours_m))
    aware = {t: r.value("b", t, resources="LLL", option="untracked") for t in TABLES}
    below_one = float(np.mean(np.less([v for c in RESOURCES for v in r.runs("m", "ring", resources=c)], 1)))
    yield "fig3-uniform-migration", show(uniform), max(uniform.values()) > 8
    yield (
        "fig3-lll-b-hashing",
        show({x: b["LLL"][x] for x in METHODS[:3]}),
        near(b["LLL"]["ring"], 1.75, 0.12) and near(b["LLL"]["uniform"], 1.55, 0.12),
    )
    yield "fig3-lll-b-redist-scan", show(both_b), all(near(v, 1.32, 0.05) for v in both_b.values())
    yield (
        "fig3-lll-b-readj",
        f"{show(ours_b)}; counting the load of untracked keys: {show(aware)}",
        near(ours_b["readj"], 1.2, 0.05) and all(between(1 - ours_b["readj"] / v, 0.05, 0.15) for v in both_b.values()),
    )
    yield (
        "fig3-lll-m",
        show(ours_m),
        near(ours_m["readj"], 1.34, 0.15) and all(near(v, 1.23, 0.15) and v < ours_m["readj"] for v in both_m.values()),
    )
    yield (
        "fig3-lql-compute",
        show(compute),
        all(between(compute[t], 28, 42) for t in TABLES) and compute["ring"] > max(compute[t] for t in TABLES),
    )
    yield "fig3-lql-compute-uniform", show({u: compute[u] for u in UNIFORM}), between(compute["uniform"], 28, 42)
    yield (
        "fig3-ring-migration",
        f"{show(m)}; below 1 in {below_one:.0%} of the runs",
        all(m[c]["ring"] <= min(m[c].values()) * 1.001 for c in RESOURCES) and below_one > 0,
    )
    tables = {c: {t: b[c][t] for t in TABLES} for c in RESOURCES}
    yield "fig3-ring-balance", show(b), all(b[c]["ring"] > max(b[c]["uniform"], *tables[c].values()) for c in RESOURCES)
    yield "fig3-readj-balance", show(tables), all(v["readj"] <= min(v.values()) for v in tables.values())
    yield (
        "fig3-redist-scan",
        show({"b": both_b, "m": both_m}),
        all(near(v["redist"], v["scan"], 0.05) for v in (both_b, both_m)),
    )


def judge_figure_4(r: Results) -> Iterator[Finding]:
    """Judge migration and imbalance as the skew grows."""
    b, m = (
        {c: {x: r.curve(name, x, "skew", resources=c) for x in METHODS} for c in RESOURCES[1:]} for name in ("b", "m")
    )
    for table in (b, m):
        table["LQL"] = {x: {z: v for z, v in curve.items() if z <= 0.5} for x, curve in table["LQL"].items()}
    uniform = max(v for c in m for u in UNIFORM for v in m[c][u].values())
    rises = {t: (m["LCL"][t][1.0] - m["LCL"][t][0.8], m["LCL"][t][0.8] - m["LCL"][t][0.5]) for t in TABLES}
    over_best = {z: b["LLL"]["ring"][z] / min(b["LLL"][t][z] for t in TABLES) - 1 for z in b["LLL"]["ring"]}
    lead = {t: 1 - b["LLL"]["readj"][1.0] / b["LLL"][t][1.0] for t in ("redist", "scan")}
    ours, *others = (b["LQL"][t] for t in ("readj", "redist", "scan"))
    behind = {z: float(ours[z] / np.mean([other[z] for other in others]) - 1) for z in ours}
    at_one = {c: {t: m[c][t][1.0] for t in TABLES} for c in ("LCL", "LLL")}
    first = {c: {x: _first_above_one(b[c][x]) for x in METHODS} for c in b}
    low = {c: {x: b[c][x][min(b[c][x])] for x in METHODS} for c in ("LCL", "LLL")}
    apart = max(abs(b[c]["scan"][z] / b[c]["redist"][z] - 1) for c in b for z in b[c]["scan"])
    loses = {c: _loses(b[c]) for c in ("LCL", "LLL")}
    yield "fig4-uniform-migration", f"up to {uniform:.3g}", uniform > 8
    yield (
        "fig4-migration-rises",
        "from 0.8 to 1, from 0.5 to 0.8: "
        + ", ".join(f"{name} {late:+.3f}, {early:+.3f}" for name, (late, early) in rises.items()),
        all(late > 0 and late > abs(early) for late, early in rises.values()),
    )
    yield (
        "fig4-ring-50",
        percent(over_best),
        between(max(over_best.values()), 0.3, 0.65) and max(over_best, key=lambda z: over_best[z]) == 1.0,
    )
    yield "fig4-readj-8", f"{percent(lead)} lower", all(between(v, 0.03, 0.12) for v in lead.values())
    yield "fig4-lql-readj", percent(behind), between(mean(behind), 0.0, 0.04)
    yield "fig4-migration-order", show(at_one), all(v["scan"] > v["readj"] > v["redist"] for v in at_one.values())
    yield (
        "fig4-ring-first",
        show(first),
        all(v["ring"] <= min(v[x] for x in ("uniform", *TABLES)) for v in first.values())
        and any(v["ring"] < v[t] for v in first.values() for t in TABLES),
    )
    yield (
        "fig4-violation-order",
        show({t: {c: first[c][t] for c in ("LQL", "LLL", "LCL")} for t in TABLES}),
        all(
            first["LQL"][t] <= first["LLL"][t] <= first["LCL"][t] and first["LQL"][t] < first["LCL"][t] for t in TABLES
        ),
    )
    yield (
        "fig4-low-skew",
        show(low),
        all(max(v.values()) <= 1 and v["uniform"] == min(v.values()) for v in low.values()),
    )
    yield (
        "fig4-uniform-loses",
        "; ".join(f"{c}: worse from {behind_at:g}, over 1 from {over:g}" for c, (behind_at, over) in loses.items()),
        all(behind_at <= over for behind_at, over in loses.values()),
    )
    yield "fig4-scan-redist", f"at most {100 * apart:.2g} %", apart <= 0.05


def _first_above_one(curve: Curve) -> float:
    return next((z for z, value in curve.items() if value > 1), float("inf"))


def _loses(b: dict[str, Curve]) -> tuple[float, float]:
    """Return the first skew at which uniform hashing is worse than the best table, and where that table exceeds 1."""
    best = {z: min(b[t][z] for t in TABLES) for z in b["uniform"]}
    behind = next((z for z in best if b["uniform"][z] > best[z]), float("inf"))
    return behind, _first_above_one(best)


def judge_figure_5(r: Results) -> Iterator[Finding]:
    """Judge migration and imbalance as the threshold scale sigma falls."""
    b = {c: {t: r.curve("b", t, "scale", resources=c) for t in TABLES} for c in ("LCL", "LQL")}
    m = {t: r.curve("m", t, "scale", resources="LCL") for t in TABLES}
    scales = list(b["LCL"]["scan"])
    smallest, middle = scales[0], [s for s in scales if 0.05 <= s <= 0.25]
    ends = {t: (b["LCL"][t][smallest], b["LCL"][t][1.0], m[t][smallest], m[t][1.0]) for t in TABLES}
    mean_m = {t: mean(m[t], [s for s in scales if s <= 0.1]) for t in TABLES}
    mean_m |= {x: r.value("m", x) for x in ("ring", "uniform")}
    mid = {t: mean(b["LCL"][t], middle) for t in TABLES}
    tiny = {t: b["LCL"][t][smallest] for t in TABLES}
    gain = {c: float(np.mean([1 - b[c][t][smallest] / b[c][t][1.0] for t in TABLES])) for c in b}
    mean_lql = {s: float(np.mean([b["LQL"][t][s] for t in TABLES])) for s in scales}
    jumps = {f"{s:g}-{t:g}": mean_lql[t] / mean_lql[s] - 1 for s, t in pairwise(scales)}
    inside = max(v for name, v in jumps.items() if 0.25 <= float(name.split("-")[0]) < 0.5)
    spread = max(
        max(b[c][t][s] for t in TABLES) / min(b[c][t][s] for t in TABLES) - 1 for c in b for s in scales if s >= 0.05
    )
    yield (
        "fig5-trade-off",
        "; ".join(f"{t}: b {x:.3g} against {y:.3g}, m {u:.3g} against {v:.3g}" for t, (x, y, u, v) in ends.items()),
        all(x < y and u > v for x, y, u, v in ends.values()),
    )
    yield (
        "fig5-migration-order",
        show(mean_m),
        mean_m["ring"] < mean_m["redist"] < mean_m["readj"] < mean_m["scan"] < mean_m["uniform"],
    )
    yield "fig5-readj-middle", show(mid), mid["readj"] <= min(mid["scan"], mid["redist"])
    yield "fig5-readj-tiny", show(tiny), tiny["readj"] > max(tiny["scan"], tiny["redist"])
    yield "fig5-lql-weaker", percent(gain), gain["LQL"] < gain["LCL"]
    yield "fig5-lql-jump", percent(jumps), inside > 0.05 and inside == max(jumps.values())
    yield "fig5-close", f"at most {100 * spread:.2g} % apart", spread <= 0.10


def judge_figure_6(r: Results) -> Iterator[Finding]:
    """Judge migration and imbalance as the number of channels grows."""
    methods = ("ring", "uniform", *TABLES)
    b, m = ({x: r.by_channels(name, x) for x in methods} for name in ("b", "m"))
    last = MOST_CHANNELS
    some = [n for n in (2, 5, 10, 15, 20, 25, 32) if n in b["ring"]]
    points = {x: show({n: m[x][n] for n in some}) for x in methods}
    excess = {n: b["uniform"][n] / b["readj"][n] - 1 for n in range(2, 21)}
    to_20, after_20 = ({t: mean(b[t], span) for t in TABLES} for span in (range(2, 21), range(21, last + 1)))
    overall = {t: float(np.mean([b[t][n] * (1 + m[t][n]) for n in b[t]])) for t in TABLES}
    late = range(23, last + 1)
    rise = {t: mean(m[t], late) - mean(m[t], range(3, 11)) for t in TABLES}
    flat = [mean(m["redist"], span) for span in (range(3, 13), range(13, 23), late)]
    mean_m = {x: mean(m[x], range(3, last + 1)) for x in ("ring", *TABLES)}
    scan = mean(m["scan"], (30, 31, 32))
    highest = float(np.mean([b["ring"][n] >= max(b[x][n] for x in methods) for n in range(3, last + 1)]))
    yield "fig6-uniform-22", f"{m['uniform'][last]:.4g}", near(m["uniform"][last], 22, 0.1)
    yield (
        "fig6-scan-3",
        f"scan {scan:.3g}; {points['scan']}",
        scan > 3,
        {"alone": r.value("m", "scan", utility="a", channels=last)},
    )
    yield "fig6-ring-2", f"{b['ring'][last]:.4g}", b["ring"][last] > 2
    yield "fig6-redist-flat", ", ".join(f"{v:.3g}" for v in flat), all(near(v, 1.15, 0.2) for v in flat)
    yield (
        "fig6-uniform-36",
        f"{100 * max(excess.values()):.3g} % at {max(excess, key=lambda n: excess[n])} channels",
        between(max(excess.values()), 0.25, 0.5),
    )
    yield (
        "fig6-ring",
        f"m {show(mean_m)}; b highest in {highest:.0%}; b {show({n: b['ring'][n] for n in some})}",
        mean_m["ring"] <= min(mean_m.values()) and highest >= 0.8 and linearity(b["ring"]) > 0.8,
    )
    yield (
        "fig6-scan-readj-rise",
        f"rise: {show(rise)}; scan {points['scan']}; readj {points['readj']}",
        rise["scan"] > 0 and rise["readj"] > 0 and m["scan"][last] > m["readj"][last],
    )
    yield "fig6-readj-to-20", show(to_20), to_20["readj"] <= min(to_20["scan"], to_20["redist"])
    yield "fig6-readj-after-20", show(after_20), after_20["readj"] > max(after_20["scan"], after_20["redist"])
    yield "fig6-redist-robust", show(overall), overall["redist"] == min(overall.values())
