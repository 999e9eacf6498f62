"""Claims on skewed data: Figure 8, in two readings of "80/20"."""

from __future__ import annotations

import numpy as np

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.flux.results import Curve, Results, points

DATA = ("self-similar", "two-class")
CEILING = "one group of the self-similar law has 26 % of the tuples: no site can do more, wherever it lies"


def crossover(balanced: Curve, level: float) -> float | None:
    """Return the shortest collection with which balancing gives at least `level`, None if there is none.

    >>> crossover({0.1: 1.0, 0.2: 3.0, 0.3: 4.0}, level=2.0)
    0.2
    """
    return next((x for x, rate in balanced.items() if rate >= level), None)


def figure_8(r: Results) -> list[Claim]:
    """Judge the length of the collection phase."""
    static = {(d, n): _static(r, d, n) for d in DATA for n in (0, 8)}
    curves = {(d, n): r.curve("8", "balanced", data=d, loaded=n) for d in DATA for n in (0, 8)}
    moves = r.curve("8", "balanced", "moves", data="self-similar", loaded=0)
    again = r.curve("8", "balanced", "most_moved", data="self-similar", loaded=0)
    seconds = len(r.runs("8", "static", data="self-similar", loaded=0)[0]["throughput"])
    first = {key: next(iter(curve.values())) for key, curve in curves.items()}
    halves = first["self-similar", 0] / static["self-similar", 0], first["two-class", 0] / static["two-class", 0]
    cross = {key: crossover(curve, static[key[0], 0]) for key, curve in curves.items()}
    shown = "; ".join(
        f"{data}, {loaded} loaded: static {static[data, loaded]:.3g}, {points(curve)}"
        for (data, loaded), curve in curves.items()
    )
    return [
        Claim.judge(
            "fig8-overreaction",
            "8",
            "with a very short collection, balancing halves the throughput of undisturbed machines",
            expected="0.35 to 0.65 of static in one reading of 80/20",
            measured=f"self-similar {halves[0]:.2f}, two-class {halves[1]:.2f}",
            holds=any(0.35 <= h <= 0.65 for h in halves),
            otherwise="a hot partition moves only where it fits; what moves in vain is light and costs little",
        ),
        Claim.judge(
            "fig8-crossover",
            "8",
            "from a collection of 250 ms on, balancing beats static on undisturbed machines",
            expected="a crossover at 100 to 500 ms (reconstructed) in one reading",
            measured=", ".join(f"{data} {_milliseconds(cross[data, 0])}" for data in DATA),
            holds=any((c := cross[d, 0]) is not None and 0.1 <= c <= 0.5 for d in DATA),
            otherwise=f"without overreaction there is no crossover, and collecting longer only slows down; {CEILING}",
        ),
        Claim.judge(
            "fig8-crossover-loaded",
            "8",
            "with eight loaded machines, balancing reaches the level of unloaded static from 150 ms on",
            expected="a crossover at 60 to 300 ms (reconstructed) in one reading",
            measured=", ".join(f"{data} {_milliseconds(cross[data, 8])}" for data in DATA),
            holds=any((c := cross[d, 8]) is not None and 0.06 <= c <= 0.3 for d in DATA),
            otherwise="self-similar: as above; two-class: eight loaded machines lack 14 % of all CPU",
        ),
        Claim.judge(
            "fig8-static-order",
            "8",
            "loaded static lies below unloaded static",
            expected="below, in both readings",
            measured=", ".join(f"{d} {static[d, 8] / static[d, 0]:.2f}" for d in DATA),
            holds=all(static[d, 8] < static[d, 0] for d in DATA),
        ),
        Claim.judge(
            "fig8-restless",
            "8",
            "the shorter the collection, the more partitions move, most of them in vain",
            expected="at least 3 times as many moves at the shortest collection as at the longest",
            measured=f"moves {points(moves)}",
            holds=bool(next(iter(moves.values())) >= 3 * list(moves.values())[-1]),
        ),
        Claim.judge(
            "fig8-hot-partitions",
            "8",
            "with short collections the same hot partitions keep moving to and fro",
            expected="one moves at least every other second at the shortest, at most half as often at the longest",
            measured=f"moves of the partition that moved most: {points(again)}, in {seconds} s",
            holds=bool(next(iter(again.values())) >= seconds / 2)
            and 2 * list(again.values())[-1] <= next(iter(again.values())),
        ),
        Claim.judge(
            "fig8-slower",
            "8",
            "a longer collection reacts more slowly",
            expected="loaded, the longest collection gives less than the best one",
            measured=shown,
            holds=all(list(curves[d, 8].values())[-1] < max(curves[d, 8].values()) for d in DATA),
        ),
    ]


def _static(r: Results, data: str, loaded: int) -> float:
    return float(np.mean(r.each("8", "static", data=data, loaded=loaded)))


def _milliseconds(seconds: float | None) -> str:
    return "never" if seconds is None else f"{1000 * seconds:g} ms"
