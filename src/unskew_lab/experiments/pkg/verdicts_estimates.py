"""Claims on what sources know of the loads: figures 4 to 6."""

from __future__ import annotations

import numpy as np

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.pkg.grid import REAL, SOURCES, STAND_INS, WORKERS
from unskew_lab.experiments.pkg.results import Results, plain, show

ESTIMATES = {"G": ("global", 0), "L5": ("local", 0), "L5P1": ("probed", 1440)}
TOO_LARGE = {("wp", 50), ("wp", 100), ("tw", 100), ("ct", 100)}
NEGLIGIBLE = 1e-3
SETTLED = 10  # points of a curve that belong to the start
ORDER = 10  # of magnitude: the paper's own measure of closeness


def figure_4(r: Results) -> list[Claim]:
    """Judge hashing, the truth and local estimates over data sets, workers and sources."""
    cells = [(data, n) for data in (*STAND_INS, *REAL) for n in WORKERS]
    hashed = {c: r.value("average", c[1], figure="4", data=c[0], scheme="key", sources=1) for c in cells}
    known = {c: r.value("average", c[1], figure="4", data=c[0], sources=1, estimate="global") for c in cells}
    local = {c: {s: r.value("average", c[1], figure="4", data=c[0], sources=s) for s in SOURCES} for c in cells}
    gain = {c: hashed[c] / max(local[c].values()) for c in cells}
    over = {s: max(local[c][s] / known[c] for c in cells) for s in SOURCES}
    away = {c: max(local[c].values()) / known[c] for c in cells}
    beyond = [c for c in cells if away[c] >= ORDER]
    spread = {c: max(local[c].values()) / min(local[c].values()) for c in cells}
    return [
        Claim.judge(
            "f4a",
            "4",
            "local estimation is always better than hashing",
            expected="average imbalance below that of hashing for all data sets, workers and sources",
            measured=f"better by a factor of {min(gain.values()):.2g} to {max(gain.values()):.2g}",
            holds=min(gain.values()) > 1,
        ),
        Claim.judge(
            "f4b",
            "4",
            "local estimation is always within an order of magnitude of the truth",
            expected="average imbalance below 10 times that with the true loads, in all cells",
            measured=f"largest factor by sources: {plain(over)}; {len(beyond)} of {len(cells)} cells beyond 10, all of "
            f"them below {max((max(local[c].values()) for c in beyond), default=0):.1e} of the tuples",
            holds=not beyond,
            otherwise="true for few sources. In balanced cells the truth leaves one message too many, and each source "
            "left to itself one or more of its own, so the factor grows with the sources. Both are next to nothing",
        ),
        Claim.judge(
            "f4c",
            "4",
            "local estimation is robust to the number of sources",
            expected="average imbalance with 5, 10, 15 and 20 sources within an order of magnitude, in all cells",
            measured=f"largest factor {max(spread.values()):.2g}",
            holds=max(spread.values()) < ORDER,
        ),
    ]


def figure_5(r: Results) -> list[Claim]:
    """Judge the imbalance as the stream goes on."""
    cells = [(data, n) for data in ("tw", "wp", "ct") for n in WORKERS]
    average, late, end = {}, {}, {}
    for name, (estimate, probes) in ESTIMATES.items():
        for data, n in cells:
            where = {"figure": "5", "data": data, "estimate": estimate, "probes": probes}
            average[name, data, n] = r.value("average", n, **where)
            end[name, data, n] = r.value("end", n, **where)
            late[name, data, n] = max(r.over_time(n, **where)[SETTLED:])
    fits = {f"{d} {n}": max(late[e, d, n] for e in ("G", "L5")) for d, n in cells if (d, n) not in TOO_LARGE}
    apart = {
        f"{d} {n}": max(end[e, d, n] for e in ESTIMATES) / min(end[e, d, n] for e in ESTIMATES)
        for d, n in sorted(TOO_LARGE)
    }
    probed = {f"{d} {n}": average["L5P1", d, n] / average["L5", d, n] for d, n in cells}
    spikes = {n: r.value("peak", n, figure="5", data="ct", estimate="local", probes=0) for n in WORKERS}
    symbols = {n: late["L5", "ct", n] for n in WORKERS}
    return [
        Claim.judge(
            "f5a",
            "5",
            "the imbalance is negligible all the time, unless there are too many workers; then all estimates coincide",
            expected=f"after a fifth of the run at most {NEGLIGIBLE:g} of the tuples so far where workers are few "
            "enough (with G and L5); elsewhere, at the end, G, L5 and L5P1 within 10 %",
            measured=f"largest: {show(fits)}; too many workers, largest over least: {plain(apart)}",
            holds=max(fits.values()) <= NEGLIGIBLE and max(apart.values()) <= 1.1,
        ),
        Claim.judge(
            "f5b",
            "5",
            "probing the true loads does not help",
            expected="average imbalance with 1440 probes at least half of that without, everywhere",
            measured=f"L5P1 over L5: {plain(probed, 2)}",
            holds=min(probed.values()) >= 0.5,
        ),
        Claim.judge(
            "f5c",
            "5",
            "drift in CT: low imbalance with occasional spikes",
            expected="L5, after a fifth of the run, at most 1e-3 of the tuples so far for 5, 10 and 50 workers; "
            "somewhere a peak of more than three times the median",
            measured=f"largest: {show(symbols)}; peak over median: {plain(spikes, 2)}",
            holds=max(symbols[n] for n in (5, 10, 50)) <= NEGLIGIBLE and max(spikes.values()) > 3,
            otherwise="low it is; the hottest symbols change places at once at the end of a week in the stand-in, and "
            "the loads follow within a few hundred messages, too few to stand out",
        ),
    ]


def figure_6(r: Results) -> list[Claim]:
    """Judge how often sources with local estimates choose as an oracle would."""
    exponents = r.tried("exponent", figure="6", data="zipf")
    where = {"figure": "6", "data": "zipf", "keys": 10_000}
    differ = {s: {z: 1 - r.value("equal", 5, exponent=z, sources=s, **where) for z in exponents} for s in (5, 10, 20)}
    worst = max(r.value("end", 5, exponent=z, sources=s, **where) for s in (5, 10, 20) for z in exponents)
    equal = {n: r.value("equal", n, figure="6", data="wp") for n in (5, 10)}
    overlap = {n: share / (2 - share) for n, share in equal.items()}
    return [
        Claim.judge(
            "f6",
            "6",
            "sources disagree with the oracle less if the skew is greater, however many there are; balance is good",
            expected="disagreement falls from 0.2 to 1.2, and rises by no more than a hundredth on the way; imbalance "
            "below 1e-2 throughout",
            measured="; ".join(f"{s} sources: {plain(curve)}" for s, curve in differ.items())
            + f"; imbalance up to {worst:.1e}",
            holds=all(c[1.2] < c[0.2] and max(np.diff(list(c.values()))) < 0.01 for c in differ.values())
            and worst < 1e-2,
        ),
        Claim.judge(
            "agreement",
            "text",
            "on WP the choices with true loads and with local estimates overlap by 47 % (Jaccard)",
            expected="between 37 and 57 % with 5 sources and 5 or 10 workers; the paper states neither",
            measured=f"overlap by workers: {plain(overlap)}; equal choices: {plain(equal)}",
            holds=any(0.37 <= share <= 0.57 for share in overlap.values()),
        ),
    ]
