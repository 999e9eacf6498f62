"""Claims on CPU load: the baseline and Figures 3, 6 and 7."""

from __future__ import annotations

import numpy as np

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.flux.grid import NODES
from unskew_lab.experiments.flux.results import STEADY, Results, points, span
from unskew_lab.experiments.runner import Measures
from unskew_lab.simulation.setup import LOADED_CAPACITY, TUPLE_BYTES

LOAD_SECONDS = 5


def baseline(r: Results) -> list[Claim]:
    """Judge what an undisturbed cluster does."""
    rate = r.baseline
    megabits = rate * TUPLE_BYTES * 8 / 1e6
    return [
        Claim.judge(
            "b1-throughput",
            "text",
            "32 undisturbed machines process about 6.9e5 tuples per second",
            expected="6.2e5 to 7.6e5 (reconstructed)",
            measured=f"{rate:.3g}",
            holds=6.2e5 <= rate <= 7.6e5,
        ),
        Claim.judge(
            "b2-network",
            "text",
            "that is a traffic of about 450 Mb/s",
            expected="405 to 495 Mb/s",
            measured=f"{megabits:.0f} Mb/s",
            holds=405 <= megabits <= 495,
        ),
        Claim.cannot_compare(
            "b3-load",
            "text",
            "the external load costs an instance 57 % of its throughput",
            measured=f"capacity {LOADED_CAPACITY} is given to the simulator",
            reason="an input of the simulation, not a result of it",
        ),
    ]


def figure_3(r: Results) -> list[Claim]:
    """Judge how buffers absorb a load that changes machines every half second."""
    unloaded = float(np.mean(r.each("3", "unloaded")))
    flux, exchange = ({x: v / unloaded for x, v in r.curve("3", s).items()} for s in ("flux", "exchange"))
    largest = max(flux)
    ahead = [x for x in flux if x > 0 and flux[x] <= exchange[x] and exchange[x] < 0.97]
    return [
        Claim.judge(
            "fig3-no-buffer",
            "3",
            "without a buffer, a load on one machine at a time halves the throughput of all",
            expected="0.35 to 0.6 of unloaded",
            measured=f"{exchange[0]:.2f}",
            holds=0.35 <= exchange[0] <= 0.6,
        ),
        Claim.judge(
            "fig3-order",
            "3",
            "a shared pool beats the same space split over queues from small sizes on, until both saturate",
            expected="Flux above Exchange at every size but 0 while Exchange is below 0.97",
            measured=f"Flux {points(flux)}; Exchange {points(exchange)}",
            holds=not ahead,
            otherwise=f"not at {ahead}",
        ),
        Claim.judge(
            "fig3-ceiling",
            "3",
            "with enough space Flux approaches the unloaded throughput",
            expected="at least 0.95 at the largest size",
            measured=f"{flux[largest]:.3f} at {largest:g} tuples",
            holds=flux[largest] >= 0.95,
        ),
    ]


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


def figure_6(r: Results) -> list[Claim]:
    """Judge one loaded machine, with and without balancing."""
    base = r.baseline
    static, balanced = r.runs("6", "static"), r.runs("6", "balanced")
    onsets = {name: [felt(run, 0.9 * base) or 99 for run in runs] for name, runs in (("s", static), ("b", balanced))}
    gaps = [onset - LOAD_SECONDS for onset in onsets["s"]]
    left = [run["left"][0] for run in balanced]
    moves = [run["moves"][0] for run in balanced]
    left_slower = [run["left"][0] for run in r.runs("6", "balanced-50ms")]
    lasted = [recovered(run) - onset for run, onset in zip(balanced, onsets["b"], strict=True)]
    ends = {
        name: [float(np.mean(run["throughput"][-STEADY:])) / base for run in runs]
        for name, runs in (("s", static), ("b", balanced))
    }
    moving = [float(np.mean(run["move_seconds"])) for run in balanced]
    early = [_share_of_transfer(run) for run in balanced]
    return [
        Claim.judge(
            "fig6-onset",
            "6",
            "buffers mask the load for about 4 s, and static and balanced feel it at the same time",
            expected="3 to 6 s, and within 1 s of each other",
            measured=f"{span(gaps)} s; balanced {span([o - LOAD_SECONDS for o in onsets['b']])} s",
            holds=all(3 <= gap <= 6 for gap in gaps)
            and all(abs(a - b) <= 1 for a, b in zip(onsets["s"], onsets["b"], strict=True)),
        ),
        Claim.judge(
            "fig6-moves",
            "6",
            "32 partitions leave the loaded machine",
            expected="26 to 40 with collections of at least 10 ms or of 50 ms: that number is illegible",
            measured=f"{span(left)} left with 10 ms ({span(moves)} moves in all), {span(left_slower)} with 50 ms",
            holds=any(all(26 <= n <= 40 for n in each) for each in (left, left_slower)),
            otherwise="short collections are noisy, so that moves go on when there is little left to even out",
        ),
        Claim.judge(
            "fig6-settling",
            "6",
            "the throughput is steady about 5 s after rebalancing began",
            expected="2 to 9 s (reconstructed)",
            measured=f"{span(lasted)} s",
            holds=all(2 <= s <= 9 for s in lasted),
        ),
        Claim.cannot_compare(
            "fig6-transfer",
            "6",
            "sending the partitions takes 2 s at least",
            measured=f"{np.mean(left) * 0.0256:.2f} s on the wire, {np.mean(left) * 0.0296:.2f} s with packing",
            reason="the parameters the paper gives yield 0.8 to 0.95 s; the printed number is reconstructed",
        ),
        Claim.judge(
            "fig6-order",
            "6",
            "balanced ends far above static and below unperturbed",
            expected="static 0.40 to 0.46 of unperturbed, balanced 0.80 to 1",
            measured=f"static {span(ends['s'])}, balanced {span(ends['b'])}",
            holds=all(0.4 <= e <= 0.46 for e in ends["s"]) and all(0.8 <= e < 1 for e in ends["b"]),
        ),
        Claim.judge(
            "fig6-stretch",
            "6",
            "what stretches rebalancing is draining what is on its way and collecting, not the transfer",
            expected="transfer and packing take less than half of the time",
            measured=f"{span(early)} of the time; a round of moves takes {span(moving)} s",
            holds=all(share < 0.5 for share in early),
        ),
    ]


def _share_of_transfer(run: Measures) -> float:
    """Return the part of the rounds' time, collections included, that sending and packing state took."""
    rounds = np.array([run["move_seconds"], run["collection"], run["moves_per_round"]])
    seconds = 0.0256 * np.maximum(rounds[2] / 2, 1) + 2 * 0.002
    return float(seconds.sum() / (rounds[0] + rounds[1]).sum())


def figure_7(r: Results) -> list[Claim]:
    """Judge many loaded machines."""
    static, balanced = (
        {x: v / r.baseline for x, v in r.curve("7", s, last=STEADY).items()} for s in ("static", "balanced")
    )
    some = {x: v for x, v in static.items() if x > 0}
    ideal = {x: (NODES - (1 - LOADED_CAPACITY) * x) / NODES for x in balanced}
    straight = float(np.corrcoef(list(balanced), list(balanced.values()))[0, 1] ** 2)
    worst = max(abs(balanced[x] - ideal[x]) for x in balanced)
    return [
        Claim.judge(
            "fig7-static",
            "7",
            "without balancing the first loaded machine costs as much as all of them",
            expected="0.40 to 0.46 from 1 to 32 loaded machines",
            measured=points(static),
            holds=all(0.4 <= v <= 0.46 for v in some.values()),
        ),
        Claim.judge(
            "fig7-balanced",
            "7",
            "balanced throughput declines smoothly and linearly with the number of loaded machines",
            expected="R squared of a line at least 0.95, never rising by more than 0.03",
            measured=f"R squared {straight:.3f}, at most {worst:.2f} from ideal; {points(balanced)}",
            holds=straight >= 0.95
            and all(b <= a + 0.03 for a, b in zip(list(balanced.values()), list(balanced.values())[1:], strict=False)),
        ),
        Claim.judge(
            "fig7-meet",
            "7",
            "with all machines loaded there is nothing to gain: both curves meet",
            expected="within 0.03 of each other at 32",
            measured=f"{static[NODES]:.3f} and {balanced[NODES]:.3f}",
            holds=abs(static[NODES] - balanced[NODES]) <= 0.03,
        ),
    ]
