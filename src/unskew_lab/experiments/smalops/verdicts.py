"""What the simulation says about the paper's claims: delays, hot keys, and application state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from unskew_lab.experiments.claims import Finding
from unskew_lab.experiments.smalops.grid import SERVICES
from unskew_lab.experiments.smalops.results import Results, microseconds, percent

PRINTED_50, PRINTED_20 = 0.73, 0.57
NEAR = 0.12  # how far a share may lie from the printed one: rate, partitions and windows are not given
SAME = 0.15  # by how much delays may differ and still look the same in a figure
APART = 1.5
CLEARLY = 0.1


def judge_figure_7(r: Results) -> Iterator[Finding]:
    """Judge the distribution of delays at 20 and 50 microseconds a message."""
    partitions = r.tried("partitions", figure="7")
    gains = {t: r.gains(figure="7", service_us=t) for t in (20.0, 50.0)}
    end = {t: r.gains("end_to_end all", figure="7", service_us=t) for t in (20.0, 50.0)}
    brink, brink_warm = (r.gains(f"broker {part}", figure="7-brink", service_us=50.0) for part in ("all", "warm"))
    bursts = {b: r.gains(figure="7-burst", burst=b) for b in r.tried("burst", figure="7-burst")}
    departs = {n: departure(*_both(r, n, 50.0)) for n in partitions}
    shape = {n: _shape(r, n) for n in partitions}
    ratios = [_ratios(r, n, 20.0) for n in partitions]
    alike = {p: max(abs(ratio[p] - 1) for ratio in ratios) for p in (50, 75, 90)}
    yield (
        "f7b",
        f"{percent(gains[50.0])}, mean {np.mean(gains[50.0]):.0%}, on {', '.join(map(str, partitions))} partitions; "
        f"with holds {percent(end[50.0])}; in a longer run {percent(r.gains(figure='7-long'))}; with Kafka's "
        f"fullest consumer at 97 %: {percent(brink)}, after the first window {percent(brink_warm)}",
        abs(float(np.mean(gains[50.0])) - PRINTED_50) <= NEAR,
    )
    yield (
        "f7a",
        f"{percent(gains[20.0])}, mean {np.mean(gains[20.0]):.0%}; with holds {percent(end[20.0])}; "
        "in bursts of " + ", ".join(f"{b:g}: {percent(g)}" for b, g in bursts.items()),
        abs(float(np.mean(gains[20.0])) - PRINTED_20) <= NEAR,
    )
    yield (
        "f7a-p90",
        "largest difference at P50 {:.0%}, P75 {:.0%}, P90 {:.0%}".format(*alike.values()),
        max(alike.values()) <= SAME,
    )
    yield (
        "f7c",
        "; ".join(f"{n} partitions: P{p:g}" for n, p in departs.items()),
        all(40 <= p <= 60 for p in departs.values()),
    )
    yield (
        "f7c-shape",
        "; ".join(f"{n} partitions: {g:.1f} times, Kafka's {k:,.0f}" for n, (g, k) in shape.items()),
        all(g <= 3 for g, _ in shape.values()),
    )


def judge_figure_8(r: Results) -> Iterator[Finding]:
    """Judge the 99th percentile over the time a message takes."""
    kafka, ours = ({t: r.p99(figure="7", service_us=t, contender=c) for t in SERVICES} for c in ("kafka", "smalops"))
    gains = {t: float(np.mean(r.gains(figure="7", service_us=t))) for t in SERVICES}
    shown = ", ".join(
        f"{t:g} us: {microseconds(kafka[t])} to {microseconds(ours[t])} ({gains[t]:.0%})" for t in SERVICES
    )
    climbs = all(kafka[a] < kafka[b] for a, b in pairwise(SERVICES))
    stable = max(gains.values()) - min(gains.values())
    yield "f8a", shown, climbs and kafka[50.0] > 2 * kafka[40.0]
    yield "f8b", f"{shown}; {100 * stable:.0f} points apart", stable <= 0.3 and min(gains.values()) > 0
    yield "f8c", shown, kafka[50.0] > 5000 and all(kafka[t] < 100 * t for t in SERVICES[:3])


def judge_figure_10(r: Results) -> Iterator[Finding]:
    """Judge keys that shift every minute."""
    shifts = r.tried("shift", figure="10")
    gains = {(t, s): r.gains(figure="10", service_us=t, shift=s) for t in (20.0, 50.0) for s in shifts}
    end = {(t, s): r.gains("end_to_end all", figure="10", service_us=t, shift=s) for t, s in gains}
    shown = {
        t: "; ".join(f"shift {s:,}: {percent(gains[t, s])}, with holds {percent(end[t, s])}" for s in shifts)
        for t in (20.0, 50.0)
    }
    better = {t: all(np.mean(gains[t, s]) >= CLEARLY for s in shifts) for t in shown}
    yield "f10", shown[20.0], better[20.0]
    yield "f10-50", shown[50.0], better[50.0]


def judge_conclusion(r: Results) -> Iterator[Finding]:
    """Judge the abstract's and the conclusion's statements."""
    best, long = (max(r.gains(figure=figure)) for figure in ("7", "7-long"))
    delays = {
        name: {t: r.p99(f"broker {part}", figure="7", service_us=t, contender="smalops") for t in SERVICES}
        for name, part in (("whole run", "all"), ("last window", "last"))
    }
    in_messages = [value / t for t, value in delays["last window"].items()]
    shown = "; ".join(
        f"{name}: " + ", ".join(f"{t:g} us {microseconds(v)}" for t, v in curve.items())
        for name, curve in delays.items()
    )
    yield "best", f"{best:.0%}, in a longer run {long:.0%}", max(best, long) >= PRINTED_50
    yield (
        "constant",
        f"{shown}; in message times {min(in_messages):.1f} to {max(in_messages):.1f}",
        max(in_messages) <= 2 * min(in_messages),
    )


def judge_real_broker(r: Results) -> Iterator[Finding]:
    """Name what a simulation cannot tell."""
    held = r.value("held_share", figure="7", contender="smalops", service_us=50.0)
    longest = r.value("longest_hold_us", figure="7", contender="smalops", service_us=50.0)
    yield "f7-absolute", "shares of improvement only; the simulated broker has no network, batches or disks", None
    yield "overhead", f"simulated holds: {held:.1%} of the messages, the longest {microseconds(longest)}", None


def departure(kafka: dict[float, float], ours: dict[float, float]) -> float:
    """Return the percentile from which on one curve lies above `APART` times the other; 100 if it never does.

    >>> departure({10: 1.0, 50: 1.2, 90: 9.0, 99: 50.0}, {10: 1.0, 50: 1.0, 90: 2.0, 99: 5.0})
    90
    """
    from_here: float = 100
    for percentile in sorted(kafka, reverse=True):
        if kafka[percentile] <= APART * ours[percentile]:
            break
        from_here = percentile
    return from_here


def _ratios(r: Results, n: int, service: float) -> dict[float, float]:
    kafka, ours = _both(r, n, service)
    return {p: (kafka[p] + 1) / (ours[p] + 1) for p in kafka}  # a microsecond is nothing


def _both(r: Results, n: int, service: float) -> list[dict[float, float]]:
    return [r.curve(figure="7", partitions=n, service_us=service, contender=c) for c in ("kafka", "smalops")]


def _shape(r: Results, n: int) -> tuple[float, float]:
    """Return by how many times delays in message times grow from 20 to 50 us, at the most up to P90."""
    grown = []
    for who in ("smalops", "kafka"):
        at = {t: r.curve("broker last", figure="7", partitions=n, service_us=t, contender=who) for t in (20.0, 50.0)}
        grown.append(max((at[50.0][p] / 50 + 1) / (at[20.0][p] / 20 + 1) for p in at[20.0] if p <= 90))
    return grown[0], grown[1]


def judge_figure_9(r: Results) -> Iterator[Finding]:
    """Judge the threshold from which on a stream is heavy, in both readings of its axis."""
    partitions = r.tried("partitions", figure="9")[0]
    static = r.p99("broker warm", figure="7", contender="kafka", partitions=partitions, service_us=50.0)
    curves, entries = {}, {}
    for hot_by in ("cover", "share"):
        tried = r.tried("hot_threshold", figure="9", hot_by=hot_by)
        curves[hot_by] = {t: r.p99("broker warm", figure="9", hot_by=hot_by, hot_threshold=t) for t in tried}
        entries[hot_by] = {t: r.value("hot_keys", figure="9", hot_by=hot_by, hot_threshold=t) for t in tried}
    cover, table = curves["cover"], entries["cover"]
    beyond = [value for t, value in cover.items() if t > 0.1]
    shown = {
        name: f"Kafka {microseconds(static)}, "
        + ", ".join(f"{t:.4g} {microseconds(v)} ({entries[name][t]:.0f} keys)" for t, v in curve.items())
        for name, curve in curves.items()
    }
    yield "f9-fall", shown["cover"], cover[0.1] <= 0.67 * min(cover[0.02], static)
    yield "f9-flat", shown["cover"], all(abs(value / cover[0.1] - 1) <= 0.25 for value in beyond)
    yield (
        "f9-table",
        f"covered: {shown['cover']}; single: {shown['share']}",
        _rises(list(table.values())) and _rises(list(entries["share"].values())[::-1]),
    )
    yield "f9-share", f"single keys: {shown['share']}", None


def judge_hot_keys(r: Results) -> Iterator[Finding]:
    """Judge the numbers of the long run: 28 million messages over 28 million keys."""
    one, many = (r.runs(figure="hot-keys", gateways=g, shift=0)[0] for g in (1, 14))
    drifting = r.runs(figure="hot-keys", gateways=1, shift=1_000)[0]
    kept = {name: max(run["tracked"]) for name, run in (("one", one), ("14", many), ("drifting", drifting))}
    share = one["frequent_messages"][0] / one["messages"][0]
    tracked = kept["one"] / one["keys"][0]
    yield "hk-keys", f"{one['keys'][0] / 1e6:.2f} million", 3.1e6 <= one["keys"][0] <= 3.3e6
    yield (
        "hk-hot",
        f"{one['frequent'][0]:,.0f} keys, {one['frequent_messages'][0] / 1e6:.1f} million messages",
        13_000 <= one["frequent"][0] <= 15_500 and one["frequent_messages"][0] >= 20e6,
    )
    yield (
        "hk-tracked",
        f"one gateway {kept['one']:,.0f}, 14 gateways {kept['14']:,.0f} each, with drift {kept['drifting']:,.0f}",
        max(kept.values()) <= 1_560,
    )
    yield (
        "hk-both",
        f"one gateway {one['hot'][0]:,.0f} keys; 14 gateways that share the keys {many['hot'][0]:,.0f}; "
        f"one gateway, keys shifting by 1,000 a window, {drifting['hot'][0]:,.0f}",
        one["hot"][0] >= 13_000 and kept["one"] <= 1_560,
    )
    yield (
        "hk-share",
        f"{tracked:.3%} tracked; hot over the run {share:.1%} of the messages, "
        f"and {share / (1 - share):.2f} times the others; those tracked by one gateway "
        f"{one['hot_messages'][0] / one['messages'][0]:.1%}",
        0.0003 <= tracked <= 0.0006 and 0.7 <= share <= 0.8,
    )


def judge_application_state(r: Results) -> Iterator[Finding]:
    """Judge inequality (4), which says when a stream with state should move."""
    moves = {rule: r.value("moves", figure="rule", rule=rule) for rule in ("none", "printed", "backlog")}
    p99 = {rule: r.p99(figure="rule", rule=rule) for rule in moves}
    shown = ", ".join(f"{rule} {moves[rule]:.0f} moves, P99 {microseconds(p99[rule])}" for rule in moves)
    yield "eq4", shown, moves["printed"] > 0.1 * moves["none"]


def _rises(values: list[float]) -> bool:
    return all(a < b for a, b in pairwise(values))
