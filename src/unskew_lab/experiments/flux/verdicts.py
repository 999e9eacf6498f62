"""What the simulation says about the paper's claims: CPU load, skewed data, and memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from unskew_lab.experiments.claims import Finding, listed
from unskew_lab.experiments.flux.grid import NODES
from unskew_lab.experiments.flux.results import STEADY, Curve, Results, points, span
from unskew_lab.experiments.runner import Measures
from unskew_lab.simulation.setup import LOADED_CAPACITY, TUPLE_BYTES

LOAD_SECONDS = 5


def judge_baseline(r: Results) -> Iterator[Finding]:
    """Judge what an undisturbed cluster does."""
    rate = r.baseline
    megabits = rate * TUPLE_BYTES * 8 / 1e6
    yield "b1-throughput", f"{rate:.3g}", 6.2e5 <= rate <= 7.6e5
    yield "b2-network", f"{megabits:.0f} Mb/s", 405 <= megabits <= 495
    yield "b3-load", f"capacity {LOADED_CAPACITY} is given to the simulator", None


def judge_figure_3(r: Results) -> Iterator[Finding]:
    """Judge how buffers absorb a load that changes machines every half second."""
    unloaded = float(np.mean(r.each("3", "unloaded")))
    flux, exchange = ({x: v / unloaded for x, v in r.curve("3", s).items()} for s in ("flux", "exchange"))
    largest = max(flux)
    ahead = [x for x in flux if x > 0 and flux[x] <= exchange[x] and exchange[x] < 0.97]
    yield "fig3-no-buffer", f"{exchange[0]:.2f}", 0.35 <= exchange[0] <= 0.6
    yield "fig3-order", f"Flux {points(flux)}; Exchange {points(exchange)}", not ahead, {"ahead": ahead}
    yield "fig3-ceiling", f"{flux[largest]:.3f} at {largest:g} tuples", flux[largest] >= 0.95


def felt(run: Measures, level: float) -> int | None:
    """Return the first second after the load began in which less than `level` was processed."""
    low = [s for s, value in enumerate(run["throughput"]) if s >= LOAD_SECONDS and value < level]
    return low[0] if low else None


def recovered(run: Measures) -> int:
    """Return the second from which on the throughput stays within 5 % of where it ends."""
    values = np.array(run["throughput"])
    last = values[-STEADY:].mean()
    outside = np.flatnonzero(values < 0.95 * last)
    return int(outside[-1]) + 1 if len(outside) else 0


def steady(runs: list[Measures], base: float) -> list[float]:
    """Return the throughput at the end of each run, over that of an undisturbed one."""
    return [float(np.mean(run["throughput"][-STEADY:])) / base for run in runs]


def judge_figure_6(r: Results) -> Iterator[Finding]:
    """Judge one loaded machine, with and without balancing."""
    base = r.baseline
    static, balanced = r.runs("6", "static"), r.runs("6", "balanced")
    onsets = {name: [felt(run, 0.9 * base) or 99 for run in runs] for name, runs in (("s", static), ("b", balanced))}
    gaps = [onset - LOAD_SECONDS for onset in onsets["s"]]
    left = [run["left"][0] for run in balanced]
    moves = [run["moves"][0] for run in balanced]
    left_slower = [run["left"][0] for run in r.runs("6", "balanced-50ms")]
    lasted = [recovered(run) - onset for run, onset in zip(balanced, onsets["b"], strict=True)]
    ends = {"s": steady(static, base), "b": steady(balanced, base)}
    moving = [float(np.mean(run["move_seconds"])) for run in balanced]
    early = [_share_of_transfer(run) for run in balanced]
    yield (
        "fig6-onset",
        f"{span(gaps)} s; balanced {span([o - LOAD_SECONDS for o in onsets['b']])} s",
        all(3 <= gap <= 6 for gap in gaps)
        and all(abs(a - b) <= 1 for a, b in zip(onsets["s"], onsets["b"], strict=True)),
    )
    yield (
        "fig6-moves",
        f"{span(left)} left with 10 ms ({span(moves)} moves in all), {span(left_slower)} with 50 ms",
        any(all(26 <= n <= 40 for n in each) for each in (left, left_slower)),
    )
    yield "fig6-settling", f"{span(lasted)} s", all(2 <= s <= 9 for s in lasted)
    yield (
        "fig6-transfer",
        f"{np.mean(left) * 0.0256:.2f} s on the wire, {np.mean(left) * 0.0296:.2f} s with packing",
        None,
    )
    yield (
        "fig6-order",
        f"static {span(ends['s'])}, balanced {span(ends['b'])}",
        all(0.4 <= e <= 0.46 for e in ends["s"]) and all(0.8 <= e < 1 for e in ends["b"]),
    )
    yield (
        "fig6-stretch",
        f"{span(early)} of the time; a round of moves takes {span(moving)} s",
        all(share < 0.5 for share in early),
    )


def _share_of_transfer(run: Measures) -> float:
    """Return the part of the rounds' time, collections included, that sending and packing state took."""
    rounds = np.array([run["move_seconds"], run["collection"], run["moves_per_round"]])
    seconds = 0.0256 * np.maximum(rounds[2] / 2, 1) + 2 * 0.002
    return float(seconds.sum() / (rounds[0] + rounds[1]).sum())


def judge_figure_7(r: Results) -> Iterator[Finding]:
    """Judge many loaded machines."""
    static, balanced = (
        {x: v / r.baseline for x, v in r.curve("7", s, last=STEADY).items()} for s in ("static", "balanced")
    )
    some = {x: v for x, v in static.items() if x > 0}
    ideal = {x: (NODES - (1 - LOADED_CAPACITY) * x) / NODES for x in balanced}
    straight = float(np.corrcoef(list(balanced), list(balanced.values()))[0, 1] ** 2)
    worst = max(abs(balanced[x] - ideal[x]) for x in balanced)
    yield "fig7-static", points(static), all(0.4 <= v <= 0.46 for v in some.values())
    yield (
        "fig7-balanced",
        f"R squared {straight:.3f}, at most {worst:.2f} from ideal; {points(balanced)}",
        straight >= 0.95 and all(b <= a + 0.03 for a, b in pairwise(balanced.values())),
    )
    yield "fig7-meet", f"{static[NODES]:.3f} and {balanced[NODES]:.3f}", abs(static[NODES] - balanced[NODES]) <= 0.03


DATA = ("self-similar", "two-class")


def crossover(balanced: Curve, level: float) -> float | None:
    """Return the shortest collection with which balancing gives at least `level`, None if there is none.

    >>> crossover({0.1: 1.0, 0.2: 3.0, 0.3: 4.0}, level=2.0)
    0.2
    """
    return next((x for x, rate in balanced.items() if rate >= level), None)


def judge_figure_8(r: Results) -> Iterator[Finding]:
    """Judge the length of the collection phase."""
    static = {(d, n): float(np.mean(r.each("8", "static", data=d, loaded=n))) for d in DATA for n in (0, 8)}
    curves = {(d, n): r.curve("8", "balanced", data=d, loaded=n) for d in DATA for n in (0, 8)}
    moves = r.curve("8", "balanced", "moves", data="self-similar", loaded=0)
    again = r.curve("8", "balanced", "most_moved", data="self-similar", loaded=0)
    seconds = len(r.runs("8", "static", data="self-similar", loaded=0)[0]["throughput"])
    first = {key: next(iter(curve.values())) for key, curve in curves.items()}
    halves = {data: first[data, 0] / static[data, 0] for data in DATA}
    kept = {data: static[data, 8] / static[data, 0] for data in DATA}
    cross = {key: crossover(curve, static[key[0], 0]) for key, curve in curves.items()}
    shown = "; ".join(
        f"{data}, {loaded} loaded: static {static[data, loaded]:.3g}, {points(curve)}"
        for (data, loaded), curve in curves.items()
    )
    yield "fig8-overreaction", listed(halves, ".2f"), any(0.35 <= h <= 0.65 for h in halves.values())
    for id, loaded, low, high in (("fig8-crossover", 0, 0.1, 0.5), ("fig8-crossover-loaded", 8, 0.06, 0.3)):
        text = ", ".join(f"{data} {_milliseconds(cross[data, loaded])}" for data in DATA)
        yield id, text, any((c := cross[d, loaded]) is not None and low <= c <= high for d in DATA)
    yield "fig8-static-order", listed(kept, ".2f"), max(kept.values()) < 1
    yield "fig8-restless", f"moves {points(moves)}", bool(next(iter(moves.values())) >= 3 * list(moves.values())[-1])
    yield (
        "fig8-hot-partitions",
        f"moves of the partition that moved most: {points(again)}, in {seconds} s",
        bool(next(iter(again.values())) >= seconds / 2) and 2 * list(again.values())[-1] <= next(iter(again.values())),
    )
    yield "fig8-slower", shown, all(list(curves[d, 8].values())[-1] < max(curves[d, 8].values()) for d in DATA)


def _milliseconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{1000 * seconds:g} ms"


SQUEEZED = 5
LIVE = 45e-6
# sites that can be short of memory while all partitions fit with room to move: 32 GB - 0.488 GB each, 24.6 GB held
ENOUGH = 14


def judge_figure_9(r: Results) -> Iterator[Finding]:
    """Judge the throughput of one machine short of memory."""
    base = float(np.mean(r.each("9", "unperturbed")))
    static, policy = r.runs("9", "static"), r.runs("9", "policy")
    resumed = [_resumed(run, 0.1 * base) for run in static]
    stalled, resident = [s - SQUEEZED for s in resumed], [_resident(run) - SQUEEZED for run in policy]
    stall = {name: [_lowest(run, base) for run in runs] for name, runs in (("static", static), ("policy", policy))}
    later, final = steady(static, base), steady(policy, base)
    yield (
        "fig9-stall",
        f"resumes after {span(stalled)} s, {span(stall['static'])} before",
        all(11 <= s <= 17 for s in stalled) and max(stall["static"]) < 0.05,
    )
    yield (
        "fig9-static",
        f"at {span(resumed)} s, then {span(later)}",
        all(16 <= s <= 22 for s in resumed) and all(v < 0.4 for v in later),
    )
    yield (
        "fig9-trickle",
        f"policy {span(stall['policy'])} of unperturbed, static {span(stall['static'])}",
        min(stall["policy"]) > max(stall["static"]),
    )
    yield "fig9-resident", f"{span(resident)} s", all(15 <= s <= 75 for s in resident)
    yield "fig9-final", span(final), all(v >= 0.95 for v in final)


def judge_figure_10(r: Results) -> Iterator[Finding]:
    """Judge the latency of one machine short of memory."""
    policy = r.runs("9", "policy")
    highest, final = ([f(run["latency"]) for run in policy] for f in (max, lambda values: values[-1]))
    yield (
        "fig10-latency",
        f"peak {span([1e6 * v for v in highest])} us, at the end {span([1e6 * v for v in final])} us",
        min(highest) > 1000 * LIVE and all(LIVE * 0.99 <= v <= 50e-6 for v in final),
    )


def judge_text(r: Results) -> Iterator[Finding]:
    """Judge what the text says of many machines short of memory, and of mixed load."""
    base = float(np.mean(r.each("9", "unperturbed")))
    static, policy = ({x: v / base for x, v in r.curve("memory", s, last=STEADY).items()} for s in ("static", "policy"))
    static_wait, wait = (r.curve("memory", s, "latency", last=STEADY) for s in ("static", "policy"))
    disk = {x: v / (128 * x) for x, v in r.curve("memory", "static", "on_disk", last=STEADY).items()}
    first, most = min(static), max(static)
    mixed = {
        s: float(r.seconds("mixed", s)[-STEADY:].mean()) / base
        for s in ("static", "flux-load", "flux-memory", "flux-hybrid")
    }
    enough = [v for x, v in policy.items() if x <= ENOUGH]
    fits = all(v <= 100e-6 for x, v in wait.items() if x <= ENOUGH)
    gain, quicker = policy[first] / static[first], static_wait[first] / wait[first]
    yield "m1-static", points(static), 0.14 <= static[first] <= 0.29 and static[most] >= 0.5 * static[first]
    yield (
        "m1-policy",
        points(policy),
        min(enough) >= 0.75
        and enough == sorted(enough, reverse=True)
        and all(v >= 0.95 * static[x] for x, v in policy.items()),
    )
    yield "m2-static", f"{points(static_wait, 1e-6)} us", 0.08 <= static_wait[first] <= 0.7
    longer = static_wait[most] / static_wait[first]
    yield "m2-all", f"{longer:.3g} times", longer >= 10
    yield "m3-policy", f"{points(wait, 1e-6)} us", fits and wait[max(wait)] > 1000 * LIVE
    yield "m4-share", span(disk.values()), all(0.3 <= share <= 0.37 for share in disk.values())
    yield "m5-hybrid", listed(mixed, ".3f"), mixed["flux-hybrid"] > max(mixed["flux-load"], mixed["flux-memory"])
    yield (
        "headline",
        f"{gain:.2g} times the throughput, latency by a factor of {quicker:.2g}",
        gain >= 3 and quicker >= 100,
    )


def _resumed(run: Measures, level: float) -> int:
    """Return the first second after the stall in which more than `level` was processed."""
    values = run["throughput"]
    stalled = next((s for s in range(SQUEEZED, len(values)) if values[s] < level), SQUEEZED)
    return next((s for s in range(stalled, len(values)) if values[s] > level), len(values))


def _lowest(run: Measures, base: float) -> float:
    return float(np.mean(run["throughput"][10:16]) / base)


def _resident(run: Measures) -> int:
    """Return the second from which on no partition lies on disk."""
    on_disk = np.flatnonzero(np.array(run["on_disk"]) > 0)
    return int(on_disk[-1]) + 1 if len(on_disk) else 0
