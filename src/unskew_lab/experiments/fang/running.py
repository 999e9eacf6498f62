"""Figures 13 to 16: throughput and latency, from the benchmark of the running stream."""

from __future__ import annotations

from collections.abc import Iterator

from unskew_lab.experiments.claims import Finding, listed, near
from unskew_lab.experiments.fang.results import Results
from unskew_lab.experiments.fang.verdicts import NEAR
from unskew_lab.experiments.running import HASH, PKG, Running, Tests, findings_of

RATES = (0.0, 0.5, 1.0, 2.0)
REAL = ("Social", "Stock")
TPCH = "TPC-H Q5, line items by order"
SCALED = "Social, one more channel"
BOUND = 1.03  # what noise may add to a bound
CLOSE = 0.9
APART = 0.03
NOISE = 0.01


def judge_running(_: Results, running: Running | None = None) -> Iterator[Finding]:
    """Judge the claims on throughput and latency by the newest whole run of ``unskew bench race``."""
    return findings_of(TESTS, running)


def _bound(r: Running) -> tuple[str, bool]:
    others = {f: max(r.throughput(_fluctuating(f), w) for w in (HASH, "Mixed 0.08", "readj", PKG)) for f in RATES}
    return f"best of the others: {listed(others)}", max(others.values()) <= BOUND


def _close(r: Running) -> tuple[str, bool]:
    ours = {f: r.throughput(_fluctuating(f), "Mixed 0.08") for f in RATES}
    return listed(ours), min(ours.values()) >= CLOSE


def _readj_falls(r: Running) -> tuple[str, bool]:
    behind = {f: r.throughput(_fluctuating(f), "Mixed 0.08") - r.throughput(_fluctuating(f), "readj") for f in RATES}
    return f"behind Mixed by {listed(behind)}", behind[0.0] <= APART < behind[2.0]


def _best_tolerance(r: Running) -> tuple[str, bool]:
    best = {s: max(r.contenders(s), key=lambda who: r.throughput(s, who)) for s in REAL}
    behind = {s: r.throughput(s, best[s]) - r.throughput(s, "Mixed 0.02") for s in REAL}
    measured = ", ".join(f"{s}: {who} {r.throughput(s, who):.3f}" for s, who in best.items())
    return f"{measured}; Mixed 0.02 behind by {listed(behind)}", max(behind.values()) <= APART


def _twice(r: Running) -> tuple[str, bool]:
    ours = r.throughput("Stock", "Mixed 0.02")
    gains = {who: ours / r.throughput("Stock", who) for who in (HASH, "readj 0.02")}
    return listed(gains), all(near(gain, 2, NEAR) or gain > 2 for gain in gains.values())


def _readj_catches_up(r: Running) -> tuple[str, bool]:
    at = {"Social": 0.3, "Stock": 0.15}
    late = {s: r.throughput(s, f"readj {t}") / r.throughput(s, f"Mixed {t}") for s, t in at.items()}
    early = {s: r.throughput(s, "readj 0.02") / r.throughput(s, "Mixed 0.02") for s in at}
    holds = min(late.values()) >= 1 - APART and max(early.values()) < 1 - APART
    return f"readj over Mixed: {listed(late)}; at 0.02: {listed(early)}", holds


def _min_table(r: Running) -> tuple[str, bool]:
    behind = {s: r.throughput(s, "MinTable") / r.throughput(s, "Mixed 0.08") for s in REAL}
    return f"MinTable over Mixed 0.08: {listed(behind)}", max(behind.values()) < 1 - NOISE


def _against_pkg(r: Running) -> tuple[str, bool]:
    faster = r.throughput("Social", "Mixed 0.02") / r.throughput("Social", PKG)
    sooner = r.latency("Social", "Mixed 0.02") / r.latency("Social", PKG)
    return f"{faster:.2f} in throughput, {sooner:.2f} in latency", faster >= 1.07 and sooner <= 0.7


def _recovers(r: Running) -> tuple[str, bool]:
    waits = {who: r.value(SCALED, "batches until even again", who) for who in ("Mixed 0.1", "readj 0.1")}
    return f"batches until even: {listed(waits)}", waits["Mixed 0.1"] < waits["readj 0.1"]


def _slow_plan(r: Running) -> tuple[str, bool]:
    seconds = r.value(SCALED, "plan", "readj 0.1") / 1e3
    return f"{seconds:.3f} s", seconds >= 300


def _pkg_below(r: Running) -> tuple[str, bool]:
    both = {who: r.throughput(SCALED, who) for who in ("Mixed 0.1", PKG)}
    return listed(both), both[PKG] < both["Mixed 0.1"] - NOISE


def _hash_worst(r: Running) -> tuple[str, bool]:
    behind = {who: r.throughput(TPCH, who) for who in r.contenders(TPCH)}
    return listed(behind), behind[HASH] == min(behind.values())


def _mixed_best(r: Running) -> tuple[str, bool]:
    ahead = {t: r.throughput(TPCH, f"Mixed {t}") - r.throughput(TPCH, f"readj {t}") for t in (0.02, 0.15, 0.3)}
    return f"ahead of readj by {listed(ahead)}", min(ahead.values()) >= -NOISE


def _fluctuating(rate: float) -> str:
    return f"fluctuation {rate}"


TESTS: Tests = {
    "fig13-1": _bound,
    "fig13-2": _close,
    "fig13-3": _readj_falls,
    "fig14-1": _best_tolerance,
    "fig14-2": _twice,
    "fig14-3": _readj_catches_up,
    "fig14-4": _min_table,
    "fig14-6": _against_pkg,
    "fig15-1": _recovers,
    "fig15-2": _slow_plan,
    "fig15-3": _pkg_below,
    "fig16-1": _hash_worst,
    "fig16-2": _mixed_best,
}
