"""Claims on balance: Table 2, Figures 7 to 9, and what the paper's successor adds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from unskew_lab.experiments.claims import Finding, near
from unskew_lab.experiments.pkg.grid import GRAPHS, SKEWED, SOURCES, WORKERS, ZIPF_1_2
from unskew_lab.experiments.pkg.results import Results, plain, show

DATA = ("wp", "tw")
TOP_SHARE = {"wp": 0.0932, "tw": 0.0267}
PRINTED = {
    "off-greedy": {"wp 50": 7.4e-2, "wp 100": 8.3e-2, "tw 50": 6.7e-3, "tw 100": 1.7e-2},
    "on-greedy": {"wp 10": 6.4e-3, "wp 50": 7.4e-2, "wp 100": 8.3e-2, "tw 50": 1.0e-2, "tw 100": 1.7e-2},
    "key": {
        "wp 5": 6.4e-2, "wp 10": 7.8e-2, "wp 50": 9.2e-2, "wp 100": 9.2e-2,
        "tw 5": 3.5e-2, "tw 10": 3.2e-2, "tw 50": 2.0e-2, "tw 100": 2.8e-2,
    },
}  # fmt: skip
LIMIT = {"wp 50": 2.7e-2, "wp 100": 3.7e-2, "tw 100": 3.4e-3}  # p1/2 - 1/W: those cells of PKG are lost in print
FEW = 20  # messages


def judge_table_2(r: Results) -> Iterator[Finding]:
    """Judge the fractions of imbalance at the end of the run."""
    schemes = ("pkg", "off-greedy", "on-greedy", "static-potc", "key")
    end = {scheme: _cells(r, scheme, "end") for scheme in schemes}
    left = {scheme: _cells(r, scheme, "tuples") for scheme in schemes}
    pkg, off, on, potc, key = (end[scheme] for scheme in schemes)
    saturated = {cell for cell in pkg if _workers(cell) > 1 / TOP_SHARE[_data(cell)]}
    small = {
        f"{s} {cell}": left[s][cell] for s in ("pkg", "off-greedy", "on-greedy") for cell in pkg.keys() - saturated
    }
    for id, scheme in (("t2a-off", "off-greedy"), ("t2a-on", "on-greedy")):
        printed, found = PRINTED[scheme], {cell: end[scheme][cell] for cell in PRINTED[scheme]}
        yield id, show(found), all(near(found[cell], value, 0.1) for cell, value in printed.items())
    fitting = {cell: messages for cell, messages in left["pkg"].items() if cell not in LIMIT}
    limits = all(near(pkg[cell], value, 0.1) for cell, value in LIMIT.items())
    yield "t2a-pkg", f"{show(pkg)}; messages: {show(fitting)}", limits and max(fitting.values()) <= FEW
    yield "t2a-key", show(key), all(0.5 <= key[cell] / value <= 2 for cell, value in PRINTED["key"].items())
    yield "t2a-small", show(dict(sorted(small.items()))), max(small.values()) <= FEW
    yield "t2a-potc", f"{potc['tw 5']:.1e}, which is {left['static-potc']['tw 5']:.0f} messages", None
    over = {cell: key[cell] / max(end[s][cell] for s in schemes[:-1]) for cell in key}
    largest = max(v for c, v in key.items() if _data(c) == "wp")
    yield (
        "t2b-key",
        f"largest {largest:.3f}; over the next worst: {show(over)}",
        min(over.values()) > 1 and 0.08 <= largest <= 0.1,
    )
    yield (
        "t2b-potc",
        f"PoTC: {show(potc)}; On-Greedy: {show({c: v for c, v in on.items() if _data(c) == 'tw'})}",
        all(potc[cell] < key[cell] for cell in key)
        and all(on[cell] <= potc[cell] * 1.001 for cell in on if _data(cell) == "tw"),
    )
    yield (
        "t2b-on",
        show({cell: on[cell] - off[cell] for cell in on}) + " apart",
        all(
            near(on[cell], off[cell], 0.1) or max(left["on-greedy"][cell], left["off-greedy"][cell]) <= FEW
            for cell in on
        ),
    )
    yield (
        "t2c",
        f"PKG over Off-Greedy: {show({cell: pkg[cell] / off[cell] for cell in sorted(saturated)})}",
        all(pkg[cell] < off[cell] for cell in saturated)
        and all(max(left[s][cell] for s in ("pkg", "off-greedy")) <= FEW for cell in pkg.keys() - saturated),
    )
    yield (
        "t2d",
        show(pkg),
        all(
            pkg[f"{data} {n}"] < 1e-4 if n < limit else pkg[f"{data} {n}"] > 1e-3
            for data, limit in (("wp", 50), ("tw", 100))
            for n in WORKERS
        ),
    )


def _cells(r: Results, scheme: str, measure: str) -> dict[str, float]:
    return {
        f"{data} {n}": r.value(measure, n, figure="table 2", data=data, scheme=scheme, sources=1, estimate="global")
        for data in DATA
        for n in WORKERS
    }


def _data(cell: str) -> str:
    return cell.split(maxsplit=1)[0]


def _workers(cell: str) -> int:
    return int(cell.split()[1])


BALANCED = 1e-3
RESTORED = 1e-4


def judge_figure_7(r: Results) -> Iterator[Finding]:
    """Judge the imbalance of two choices as the skew of the keys grows."""
    domains, exponents = (r.tried(field, figure="7", data="zipf") for field in ("keys", "exponent"))
    end, limit = {}, {}
    for z in exponents:
        for keys in domains:
            where: dict[str, Any] = {"figure": "7", "data": "zipf", "exponent": z, "keys": keys}
            for n in WORKERS:
                end[n, keys, z] = r.value("end", n, **where)
                limit[n, keys, z] = r.top_share(**where) * n / 2
    breaks = {
        n: {keys: next((z for z in exponents if end[n, keys, z] > BALANCED), exponents[-1]) for keys in domains}
        for n in WORKERS
    }
    agree = [(end[cell] > BALANCED) == (limit[cell] > 1) for cell in end]
    above = [end[cell] > BALANCED for cell in end if limit[cell] > 1.1]
    early = [limit[cell] for cell in end if limit[cell] <= 1 and end[cell] > BALANCED]
    fronts = "; ".join(f"{n} workers: {plain(row)}" for n, row in breaks.items())
    yield "f7a", fronts, all(max(row.values()) - min(row.values()) < 0.21 for row in breaks.values())
    yield (
        "f7b",
        fronts,
        all(1.0 <= z <= 1.4 for n in (5, 10) for z in breaks[n].values())
        and all(breaks[a][k] >= breaks[b][k] for a, b in pairwise(WORKERS) for k in domains)
        and all(z < 1.2 for n in (50, 100) for z in breaks[n].values()),
    )
    yield (
        "f7c",
        f"{sum(agree) / len(agree):.1%} of {len(agree)} cells agree; {sum(above)} of {len(above)} above "
        f"the limit are out of balance, and {len(early)} below it, from {min(early, default=1):.2f} of it on",
        sum(agree) >= 0.9 * len(agree) and all(above),
    )


def judge_figure_8(r: Results) -> Iterator[Finding]:
    """Judge sources that are fed unevenly: by the vertex where an edge begins."""
    ratio, largest, grows = [], {}, []
    for graph, law in GRAPHS.items():
        where: dict[str, Any] = {"figure": "8", "data": "edges", **law}
        if not r.tried("sources", **where):
            continue
        even, uneven = (
            {(s, n): r.value("average", n, sources=s, feed=feed, **where) for s in SOURCES for n in WORKERS}
            for feed in ("round-robin", "hash")
        )
        ratio += [uneven[cell] / even[cell] for cell in even]
        largest[graph] = max(*even.values(), *uneven.values())
        grows.append((uneven[20, 5] / uneven[5, 5], uneven[5, 10] / uneven[5, 5]))
    yield (
        "f8",
        f"uneven over even {min(ratio):.2f} to {max(ratio):.2f}; factor from 5 to 20 "
        f"sources and from 5 to 10 workers {', '.join(f'{a:.2g} and {b:.2g}' for a, b in grows)}; largest on LJ "
        f"{largest['lj']:.1e}, on all {max(largest.values()):.1e}",
        0.5 <= min(ratio) <= max(ratio) <= 2
        and all(1 < a < 10 and 1 < b < 10 for a, b in grows)
        and largest["lj"] < BALANCED,
    )


def judge_figure_9(r: Results) -> Iterator[Finding]:
    """Judge how many choices restore the balance for Zipf 1.2 over a million keys."""
    tried = r.tried("choices", figure="9")
    runs = {
        n: {d: r.value("end", n, figure="9", scheme="greedy-d", choices=d, **ZIPF_1_2) for d in tried}
        for n in SKEWED["workers"]
    }
    needed = {n: next((d for d in tried if row[d] < RESTORED), 10**6) for n, row in runs.items()}
    floor = {n: r.top_share(figure="9", scheme="greedy-d", choices=2, **ZIPF_1_2) * n for n in needed}
    measured = f"first choices below {RESTORED:g}: {plain(needed)}; p1 times the workers: {plain(floor)}"
    yield "f9a", measured, needed[5] <= 4 and 8 <= needed[40] <= 10
    yield "f9b", measured, 10 <= needed[50] < needed[100] <= 40


def judge_beyond(r: Results) -> Iterator[Finding]:
    """Judge what more choices for the hottest keys alone bring: not of this paper, but of its successor."""
    schemes = ("pkg", "d-choices", "w-choices")
    end, counters = (
        {s: {n: r.value(m, n, figure="beyond", scheme=s, **ZIPF_1_2) for n in SKEWED["workers"]} for s in schemes}
        for m in ("end", "counters")
    )
    cost = {n: counters["d-choices"][n] / counters["pkg"][n] for n in end["pkg"]}
    yield (
        "beyond-d-choices",
        f"{show(end)}; counters {plain(cost)}",
        all(
            end["pkg"][n] > 5e-2 and end["d-choices"][n] <= 2e-4 and end["w-choices"][n] < 1e-5 and cost[n] <= 1.25
            for n in (40, 50, 100)
        ),
    )
