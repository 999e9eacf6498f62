"""Claims on what sources know of the loads (Figures 4 to 6), on memory, and on the running stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from unskew_lab.experiments.claims import Finding, listed, near
from unskew_lab.experiments.pkg.grid import REAL, SOURCES, STAND_INS, WORKERS
from unskew_lab.experiments.pkg.results import Results, plain, show
from unskew_lab.experiments.running import HASH, PKG, SHUFFLE, Running, Tests, findings_of

ESTIMATES = {"G": ("global", 0), "L5": ("local", 0), "L5P1": ("probed", 1440)}
TOO_LARGE = {("wp", 50), ("wp", 100), ("tw", 100), ("ct", 100)}
NEGLIGIBLE = 1e-3
SETTLED = 10  # points of a curve that belong to the start
ORDER = 10  # of magnitude: the paper's own measure of closeness


def judge_figure_4(r: Results) -> Iterator[Finding]:
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
    yield "f4a", f"better by a factor of {min(gain.values()):.2g} to {max(gain.values()):.2g}", min(gain.values()) > 1
    yield (
        "f4b",
        f"largest factor by sources: {plain(over)}; {len(beyond)} of {len(cells)} cells beyond 10, all of "
        f"them below {max((max(local[c].values()) for c in beyond), default=0):.1e} of the tuples",
        not beyond,
    )
    yield "f4c", f"largest factor {max(spread.values()):.2g}", max(spread.values()) < ORDER


def judge_figure_5(r: Results) -> Iterator[Finding]:
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
    yield (
        "f5a",
        f"largest: {show(fits)}; too many workers, largest over least: {plain(apart)}",
        max(fits.values()) <= NEGLIGIBLE and max(apart.values()) <= 1.1,
    )
    yield "f5b", f"L5P1 over L5: {plain(probed, '.2g')}", min(probed.values()) >= 0.5
    yield (
        "f5c",
        f"largest: {show(symbols)}; peak over median: {plain(spikes, '.2g')}",
        max(symbols[n] for n in (5, 10, 50)) <= NEGLIGIBLE and max(spikes.values()) > 3,
    )


def judge_figure_6(r: Results) -> Iterator[Finding]:
    """Judge how often sources with local estimates choose as an oracle would."""
    exponents = r.tried("exponent", figure="6", data="zipf")
    where = {"figure": "6", "data": "zipf", "keys": 10_000}
    differ = {s: {z: 1 - r.value("equal", 5, exponent=z, sources=s, **where) for z in exponents} for s in (5, 10, 20)}
    worst = max(r.value("end", 5, exponent=z, sources=s, **where) for s in (5, 10, 20) for z in exponents)
    equal = {n: r.value("equal", n, figure="6", data="wp") for n in (5, 10)}
    overlap = {n: share / (2 - share) for n, share in equal.items()}
    yield (
        "f6",
        "; ".join(f"{s} sources: {plain(curve)}" for s, curve in differ.items()) + f"; imbalance up to {worst:.1e}",
        all(c[1.2] < c[0.2] and max(np.diff(list(c.values()))) < 0.01 for c in differ.values()) and worst < 1e-2,
    )
    yield (
        "agreement",
        f"overlap by workers: {plain(overlap)}; equal choices: {plain(equal)}",
        any(0.37 <= share <= 0.57 for share in overlap.values()),
    )


def judge_memory(r: Results) -> Iterator[Finding]:
    """Judge the counters of a word count."""
    found = {
        scheme: r.value("counters", n, figure="memory", data="wp-pinned", scheme=scheme, sources=8)
        for scheme, n in (("key", 10), ("pkg", 8), ("shuffle", 8))
    }
    printed = {"key": 2.9e6, "pkg": 3.6e6, "shuffle": 7.2e6}
    yield (
        "mem",
        ", ".join(f"{scheme} {counters / 1e6:.2f} M" for scheme, counters in found.items())
        + f"; PKG over key grouping {found['pkg'] / found['key']:.2f}, over shuffling "
        f"{found['pkg'] / found['shuffle']:.2f}",
        all(near(found[scheme], counters, 0.1) for scheme, counters in printed.items()),
    )


def judge_running(_: Results, running: Running | None = None) -> Iterator[Finding]:
    """Judge Figure 10 and Table 3, throughput and latency, by the newest whole run of ``unskew bench race``."""
    return findings_of(TESTS, running)


def _more_delay(r: Running) -> tuple[str, bool]:
    short, long = ({who: r.value(stream, "batch, median", who) for who in SCHEMES} for stream in DELAYS)
    lost = {who: 1 - short[who] / long[who] for who in SCHEMES}
    holds = max(lost, key=lambda who: lost[who]) == HASH and all(
        near(taken[PKG], taken[SHUFFLE], 0.1) and max(taken[PKG], taken[SHUFFLE]) < taken[HASH]
        for taken in (short, long)
    )
    return f"throughput lost: {listed(lost)}; seconds a batch: {listed(short)}, then {listed(long)}", holds


def _latencies(r: Running) -> tuple[str, bool]:
    short, long = ({who: r.latency(stream, who) for who in SCHEMES} for stream in DELAYS)
    equal = all(near(short[who], short[HASH], 0.3) for who in (PKG, SHUFFLE))
    lower = all(long[who] <= 0.7 * long[HASH] for who in (PKG, SHUFFLE))
    return f"seconds: {listed(short)}, then {listed(long)}", equal and lower


def _lower_latency(r: Running) -> tuple[str, bool]:
    below = 1 - r.latency(DELAYS[1], PKG) / r.latency(DELAYS[1], HASH)
    return f"{below:.0%}", below >= 0.3


DELAYS = ("word count, short delay", "word count, long delay")
SCHEMES = (HASH, PKG, SHUFFLE)
TESTS: Tests = {"f10a": _more_delay, "t3a": _latencies, "t3b": _lower_latency}
