"""Claims on memory: Figures 9 and 10, and the text on many machines and on mixed load."""

from __future__ import annotations

import numpy as np

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.flux.results import STEADY, Results, points, span
from unskew_lab.experiments.runner import Measures

SQUEEZED = 5
LIVE = 45e-6
ENOUGH = 14
"""Sites that can be short of memory while all partitions fit with room to move: 32 GB - 0.488 GB each, 24.6 GB held."""


def figure_9(r: Results) -> list[Claim]:
    """Judge the throughput of one machine short of memory."""
    base = float(np.mean(r.each("9", "unperturbed")))
    static, policy = r.runs("9", "static"), r.runs("9", "policy")
    resumed = [_resumed(run, 0.1 * base) for run in static]
    stall = {name: [_lowest(run, base) for run in runs] for name, runs in (("static", static), ("policy", policy))}
    later = [float(np.mean(run["throughput"][-STEADY:])) / base for run in static]
    final = [float(np.mean(run["throughput"][-STEADY:])) / base for run in policy]
    resident = [_resident(run) for run in policy]
    return [
        Claim.judge(
            "fig9-stall",
            "9",
            "writing 256 MB takes about 14 s, in which nearly nothing is processed",
            expected="static resumes 11 to 17 s after the memory went, below 5 % before",
            measured=f"resumes after {span([s - SQUEEZED for s in resumed])} s, {span(stall['static'])} before",
            holds=all(11 <= s - SQUEEZED <= 17 for s in resumed) and all(v < 0.05 for v in stall["static"]),
        ),
        Claim.judge(
            "fig9-static",
            "9",
            "static resumes at t = 19 s, at a much lower rate",
            expected="16 to 22 s, then less than 0.4 of unperturbed",
            measured=f"at {span(resumed)} s, then {span(later)}",
            holds=all(16 <= s <= 22 for s in resumed) and all(v < 0.4 for v in later),
        ),
        Claim.judge(
            "fig9-trickle",
            "9",
            "with the policy, a trickle gets through during the stall",
            expected="more than static in every second of the stall together",
            measured=f"policy {span(stall['policy'])} of unperturbed, static {span(stall['static'])}",
            holds=min(stall["policy"]) > max(stall["static"]),
        ),
        Claim.judge(
            "fig9-resident",
            "9",
            "with the policy, all partitions are back in memory about 56 s after the memory went",
            expected="15 to 75 s (low confidence)",
            measured=f"{span([s - SQUEEZED for s in resident])} s",
            holds=all(15 <= s - SQUEEZED <= 75 for s in resident),
        ),
        Claim.judge(
            "fig9-final",
            "9",
            "the final throughput with the policy equals the unperturbed one",
            expected="at least 0.95 of it",
            measured=span(final),
            holds=all(v >= 0.95 for v in final),
        ),
    ]


def figure_10(r: Results) -> list[Claim]:
    """Judge the latency of one machine short of memory."""
    policy = r.runs("9", "policy")
    highest, final = ([f(run["latency"]) for run in policy] for f in (max, lambda values: values[-1]))
    return [
        Claim.judge(
            "fig10-latency",
            "10",
            "with the policy latency is high while spilled input is worked off, and then 45 microseconds again",
            expected="a peak over 1000 times 45 us, at the end 45 to 50 us",
            measured=f"peak {span([1e6 * v for v in highest])} us, at the end {span([1e6 * v for v in final])} us",
            holds=min(highest) > 1000 * LIVE and all(LIVE * 0.99 <= v <= 50e-6 for v in final),
        )
    ]


def text(r: Results) -> list[Claim]:
    """Judge what the text says of many machines short of memory, and of mixed load."""
    base = float(np.mean(r.each("9", "unperturbed")))
    rate = {s: {x: v / base for x, v in r.curve("memory", s, last=STEADY).items()} for s in ("static", "policy")}
    wait = {s: r.curve("memory", s, "latency", last=STEADY) for s in ("static", "policy")}
    disk = r.curve("memory", "static", "on_disk", last=STEADY)
    first, most = min(rate["static"]), max(rate["static"])
    mixed = {
        s: float(r.seconds("mixed", s)[-STEADY:].mean()) / base
        for s in ("static", "flux-load", "flux-memory", "flux-hybrid")
    }
    enough = {x: v for x, v in rate["policy"].items() if x <= ENOUGH}
    fits = {x: v for x, v in wait["policy"].items() if x <= ENOUGH}
    short = {x: v for x, v in wait["policy"].items() if x > ENOUGH}
    gain, quicker = rate["policy"][first] / rate["static"][first], wait["static"][first] / wait["policy"][first]
    return [
        Claim.judge(
            "m1-static",
            "text",
            "one machine short of memory brings static from 6.9e5 to 1e5 to 2e5; more machines change little",
            expected="0.14 to 0.29 of unperturbed at 1, at least half of that at the most",
            measured=points(rate["static"]),
            holds=0.14 <= rate["static"][first] <= 0.29 and rate["static"][most] >= 0.5 * rate["static"][first],
        ),
        Claim.judge(
            "m1-policy",
            "text",
            "with the policy the throughput degrades gracefully, almost linearly",
            expected="at least 0.75 while memory suffices, falling in that part, and nowhere below static",
            measured=points(rate["policy"]),
            holds=all(v >= 0.75 for v in enough.values())
            and list(enough.values()) == sorted(enough.values(), reverse=True)
            and all(v >= 0.95 * rate["static"][x] for x, v in rate["policy"].items()),
        ),
        Claim.judge(
            "m2-static",
            "text",
            "one machine short of memory raises the static latency from 45 us to about 2.4e5 us",
            expected="0.8e5 to 7e5 us (reconstructed)",
            measured=f"{points(wait['static'], 1e-6)} us",
            holds=0.08 <= wait["static"][first] <= 0.7,
        ),
        Claim.judge(
            "m2-all",
            "text",
            "with all machines short, latency is tens of times higher still",
            expected="at least 10 times that of one machine",
            measured=f"{wait['static'][most] / wait['static'][first]:.3g} times",
            holds=wait["static"][most] >= 10 * wait["static"][first],
        ),
        Claim.judge(
            "m3-policy",
            "text",
            "the policy keeps latency as in memory until memory runs out everywhere, then it climbs steeply",
            expected="at most 100 us while memory suffices, over 1000 times 45 us at the most machines",
            measured=f"{points(wait['policy'], 1e-6)} us",
            holds=all(v <= 100e-6 for v in fits.values()) and short[max(short)] > 1000 * LIVE,
        ),
        Claim.judge(
            "m4-share",
            "text",
            "a third of the partitions of a machine short of memory lie on disk",
            expected="0.3 to 0.37",
            measured=span([disk[x] / (128 * x) for x in disk]),
            holds=all(0.3 <= disk[x] / (128 * x) <= 0.37 for x in disk),
        ),
        Claim.judge(
            "m5-hybrid",
            "text",
            "under mixed load the hybrid policy beats both others",
            expected="ends above flux-load and flux-memory, two machines loaded and two short of memory",
            measured=", ".join(f"{name} {value:.3f}" for name, value in mixed.items()),
            holds=mixed["flux-hybrid"] > max(mixed["flux-load"], mixed["flux-memory"]),
        ),
        Claim.judge(
            "headline",
            "text",
            "several times the throughput and orders of magnitude less latency than static partitioning",
            expected="at least 3 times, and at least 100 times",
            measured=f"{gain:.2g} times the throughput, latency by a factor of {quicker:.2g}",
            holds=gain >= 3 and quicker >= 100,
        ),
    ]


def _resumed(run: Measures, level: float) -> int:
    """Return the first second after the stall in which more than `level` was processed."""
    values = run["throughput"]
    stalled = next((s for s in range(SQUEEZED, len(values)) if values[s] < level), SQUEEZED)
    return next((s for s in range(stalled, len(values)) if values[s] > level), len(values))


def _lowest(run: Measures, base: float) -> float:
    """Return the throughput, relative, in the seconds in which static stands still."""
    return float(np.mean(run["throughput"][10:16]) / base)


def _resident(run: Measures) -> int:
    """Return the second from which on no partition lies on disk."""
    on_disk = np.flatnonzero(np.array(run["on_disk"]) > 0)
    return int(on_disk[-1]) + 1 if len(on_disk) else 0
