"""Claims on utilities, domains, sizes and the time to build: Figures 7 to 14, and Table 1."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from unskew_lab.experiments.claims import Finding, mean, near
from unskew_lab.experiments.gedik.grid import RESOURCES, TABLES, UTILITIES
from unskew_lab.experiments.gedik.results import Curve, Results, between, linearity, milliseconds, percent, show, slope


def judge_figure_7(r: Results) -> Iterator[Finding]:
    """Judge the utilities for readj (7a) and redist (7b)."""
    b, m = _by_utility(r, "b", "readj"), _by_utility(r, "m", "readj")
    shown = "; ".join(f"{c}: m {show(m[c])}, b {show(b[c])}" for c in m)
    cheapest = {c: min(UTILITIES[1:], key=lambda u: m[c][u]) for c in m}
    spread = max(max(b[c].values()) / min(b[c].values()) - 1 for c in ("LCL", "LLL"))
    yield "fig7a-a-worst", shown, all(curve["a"] == max(curve.values()) for curve in m.values())
    yield (
        "fig7a-apm-lowest",
        f"{show({c: m[c][cheapest[c]] for c in m})}; by {', '.join(cheapest.values())}",
        cheapest == {"LCL": "aplm", "LLL": "apm", "LQL": "apm"},
    )
    yield "fig7a-balance", shown, spread <= 0.05 and b["LQL"]["apm"] <= min(b["LQL"].values()) * 1.0001
    b, m = _by_utility(r, "b", "redist"), _by_utility(r, "m", "redist")
    shown = "; ".join(f"{c}: m {show(m[c])}, b {show(b[c])}" for c in m)
    lql = {u: v / b["LQL"]["apm"] for u, v in b["LQL"].items()}
    log = {c: m[c]["aplm"] / m[c]["apm"] - 1 for c in m}
    times = {f"{c} {u}": 1 - m[c][u] / m[c]["apm"] for c in m for u in ("atm", "atlm")}
    yield "fig7b-balance", shown, all(max(v["apm"], v["aplm"]) <= min(v["atm"], v["atlm"]) for v in b.values())
    yield "fig7b-lql-3", show(lql), between(max(lql.values()), 2, 4)
    yield "fig7b-aplm", percent(log), between(mean(log), 0.2, 0.45)
    yield "fig7b-atm", f"{percent(times)} less", between(mean(times), 0.25, 0.5)


def _by_utility(r: Results, measure: str, method: str) -> dict[str, Curve]:
    return {c: {u: r.value(measure, method, resources=c, utility=u) for u in UTILITIES} for c in RESOURCES[1:]}


def judge_figure_8(r: Results) -> Iterator[Finding]:
    """Judge migration and imbalance as the domain grows."""
    methods = ("ring", "uniform", *TABLES)
    b, m = ({x: r.curve(name, x, "keys") for x in methods} for name in ("b", "m"))
    alone = r.curve("m", "scan", "keys", utility="a")
    sizes = list(b["ring"])
    small, large = sizes[0], sizes[-1]
    ahead = {n: b["redist"][n] / b["readj"][n] - 1 for n in sizes}
    falls = {n: {t: m[t][n] for t in TABLES} for n in (small, large)}
    mean_b = {n: float(np.mean([b[t][n] for t in TABLES])) for n in sizes}
    mean_m = {t: mean(m[t]) for t in TABLES}
    drops = [mean_b[x] - mean_b[y] for x, y in pairwise(sizes)]
    in_order = all(max(b[t][n] for t in TABLES) < b["uniform"][n] < b["ring"][n] for n in sizes)
    uniform = list(m["uniform"].values())
    apart = max(abs(b["scan"][n] / b["redist"][n] - 1) for n in sizes)
    below_one = float(np.mean(np.less([v for n in sizes for v in r.runs("m", "ring", keys=n)], 1)))
    yield "fig8-redist-3", percent(ahead), between(max(ahead.values()), 0, 0.05)
    yield "fig8-uniform", show(m["uniform"]), all(between(v, 6.3, 7.8) for v in uniform) and uniform == sorted(uniform)
    yield (
        "fig8-tables-fall",
        "; ".join(f"{t} {falls[small][t]:.3g} to {falls[large][t]:.3g}" for t in TABLES),
        near(mean(falls[small]), 2.2, 0.2) and near(mean(falls[large]), 1.25, 0.2),
        {"small": alone[small], "large": alone[large]},
    )
    yield "fig8-balance-order", show(b), in_order
    yield "fig8-scan-redist", f"at most {100 * apart:.2g} %", apart <= 0.05
    yield "fig8-flattens", show(mean_b), min(drops) > 0 and drops[-1] <= drops[0] and min(mean_b.values()) > 1
    yield "fig8-ring-below-1", f"{show(m['ring'])}; below 1 in {below_one:.0%} of the runs", mean(m["ring"]) < 1
    yield (
        "fig8-migration-order",
        show(mean_m),
        mean_m["redist"] == min(mean_m.values()) and mean_m["scan"] == max(mean_m.values()),
    )
    yield "fig8-largest-domain", "not measured", None, {"large": large}


def judge_figure_9(r: Results) -> Iterator[Finding]:
    """Judge the sizes of counter and table over the threshold scale."""
    counter = {c: r.curve("entries", "counter", "scale", resources=c) for c in ("LCL", "LLL", "LQL")}
    table = {c: r.curve("table", "scan", "scale", resources=c) for c in ("LCL", "LQL")}
    smallest = min(table["LCL"])
    apart = {s: table["LQL"][s] / table["LCL"][s] - 1 for s in table["LCL"]}
    same = counter["LCL"] == counter["LLL"]
    yield (
        "fig9-counter-2500",
        show({c: counter[c][0.1] for c in ("LCL", "LQL")}),
        near(counter["LCL"][0.1], 2500, 0.25) and near(counter["LQL"][0.1], 50_000, 0.25),
    )
    yield (
        "fig9-table-50",
        show(table["LCL"]),
        table["LCL"][1.0] <= 5 and between(table["LCL"][0.1], 35, 60) and between(table["LCL"][smallest], 400, 600),
    )
    yield "fig9-counter-grows", show(counter["LCL"]), all(_falls(curve) for curve in counter.values())
    yield "fig9-counter-overlap", "equal" if same else "different", same
    yield (
        "fig9-table-overlap",
        percent(apart),
        all(abs(v) <= 0.15 or abs(table["LQL"][s] - table["LCL"][s]) <= 1 for s, v in apart.items()),
    )


def judge_figure_10(r: Results) -> Iterator[Finding]:
    """Judge the sizes over the skew."""
    counter = {c: r.curve("entries", "counter", "skew", resources=c) for c in ("LCL", "LLL", "LQL")}
    quadratic = {z: v for z, v in counter["LQL"].items() if z <= 0.5}
    table = {c: r.curve("table", "scan", "skew", resources=c) for c in ("LCL", "LLL")}
    flat = {z: v / max(counter["LCL"].values()) for z, v in counter["LCL"].items()}
    upper = [table["LCL"][z] for z in (0.5, 0.8, 1.0)]
    values = list(quadratic.values())
    same = table["LCL"] == table["LLL"] and counter["LCL"] == counter["LLL"]
    yield (
        "fig10-counter-flat",
        show(flat),
        all(v > 0.95 for z, v in flat.items() if z <= 0.8)
        and between(flat[1.0], 0.6, min(v for z, v in flat.items() if z < 1)),
    )
    yield "fig10-counter-lql", show(quadratic), max(values) > values[0] and max(values) > values[-1]
    yield "fig10-table", show(table["LCL"]), upper[2] - upper[1] > upper[1] - upper[0] >= 0
    yield "fig10-overlap", "equal" if same else "different", same


def judge_figure_11(r: Results) -> Iterator[Finding]:
    """Judge the sizes over the number of channels."""
    curves = {"counter": r.curve("entries", "counter", "channels"), "table": r.by_channels("table", "scan")}
    for name, curve in curves.items():
        straight, some = linearity(curve), {n: v for n, v in curve.items() if n in (2, 5, 10, 20, 32)}
        grows = curve[max(curve)] > curve[min(curve)]
        yield f"fig11-{name}", f"R squared {straight:.4f}; {show(some)}", straight >= 0.97 and grows


def judge_figure_12(r: Results) -> Iterator[Finding]:
    """Judge the seconds to build over the threshold scale."""
    seconds = {t: r.curve("seconds", t, "scale") for t in TABLES}
    smallest = min(seconds["scan"])
    at_smallest, default = ({t: seconds[t][s] for t in TABLES} for s in (smallest, 0.1))
    yield "fig12-seconds", f"at sigma {smallest:g}: {milliseconds(at_smallest)}", None
    yield "fig12-default", milliseconds(default), default["readj"] < 0.05
    yield "fig12-order", milliseconds(at_smallest), at_smallest["scan"] < at_smallest["redist"] < at_smallest["readj"]
    yield (
        "fig12-slower",
        "; ".join(f"{t}: {milliseconds(seconds[t])}" for t in TABLES),
        all(at_smallest[t] > default[t] for t in TABLES),
    )


def judge_figure_13(r: Results) -> Iterator[Finding]:
    """Judge the time to build over the number of channels."""
    placing = {t: {n: v for n, v in r.by_channels("placing_seconds", t).items() if n >= 8} for t in TABLES}
    ring = r.by_channels("ring_seconds", "scan")
    last = max(ring)
    slopes = {t: slope(placing[t]) for t in TABLES}
    at_last = {t: placing[t][last] for t in TABLES}
    scan, others = at_last["scan"] / ring[last], {t: at_last[t] / ring[last] for t in ("redist", "readj")}
    yield (
        "fig13-superlinear",
        "exponents " + show(slopes) + "; at 32 channels " + milliseconds(at_last),
        all(v > 1 for v in slopes.values()) and at_last["scan"] == min(at_last.values()),
    )
    yield "fig13-scan-ring", f"{scan:.2g} times the ring's {1e3 * ring[last]:.2g} ms", between(scan, 1 / 3, 3)
    yield "fig13-others", f"{show(others)} times the ring's time", min(others.values()) > 2


def judge_figure_14(r: Results) -> Iterator[Finding]:
    """Judge the time to build over the skew."""
    placing = {t: r.curve("placing_seconds", t, "skew") for t in TABLES}
    rise = {t: (placing[t][0.8] - placing[t][0.5], placing[t][1.0] - placing[t][0.8]) for t in TABLES}
    scan = list(placing["scan"].values())
    yield "fig14-scan", milliseconds(placing["scan"]), max(scan) - min(scan) < 1e-4
    yield (
        "fig14-rise",
        "; ".join(f"{t}: {milliseconds(placing[t])}" for t in ("redist", "readj")),
        all(rise[t][1] > rise[t][0] for t in ("redist", "readj")) and rise["readj"][1] > rise["redist"][1],
    )


def judge_table_1(r: Results) -> Iterator[Finding]:
    """Judge the range of the balance ratio alpha."""
    b, m = ({t: r.curve(name, t, "balance_ratio") for t in TABLES} for name in ("b", "m"))
    yield (
        "table1-alpha",
        "; ".join(f"{t}: b {show(b[t])}, m {show(m[t])}" for t in TABLES),
        all(min(curve) == 1.01 and max(curve) == 4 and _falls(curve) for curve in b.values()),
    )


def _falls(curve: Curve) -> bool:
    return bool(np.all(np.diff(list(curve.values())) < 0))
