"""Figures 17 to 21 and the theorems: table size, window, exponent, and what was proved."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from unskew_lab.experiments.claims import Claim
from unskew_lab.experiments.fang.judging import BOTH, RISING, judge, number, show
from unskew_lab.experiments.fang.results import Results, trend


def judge_tables(r: Results) -> Iterator[Claim]:
    """Judge Figures 17 and 18: how large a table must be, and how large it grows."""
    needed = {n: {t: _sufficient_cap(r, n, t) for t in (0.02, 0.08, 0.15, 0.30)} for n in (15, 30)}
    curve = r.curve("migration_share", "table_cap", figure="17", tolerance=0.08, channels=30)
    caps = list(curve)
    yield judge(
        "fig17-1",
        "at a tolerance of 0.08 Mixed migrates much up to a cap of 2^10 and suddenly less beyond 2,000",
        "state moved drops between 2^10 and 2^12",
        f"{show(curve)}; least sufficient cap with 30 channels "
        f"{number(needed[30][0.08])}, with 15 {number(needed[15][0.08])}",
        1024 < needed[30][0.08] <= 4096 and curve[caps[0]] >= 1.2 * curve[caps[-1]],
        "30 channels and a million keys; the defaults of the figure are lost, and with 15 channels and 100,000 keys "
        "the drop is there too, at a smaller table",
    )
    yield judge(
        "fig17-2",
        "the smaller the tolerance, the larger the table must be",
        "least sufficient cap falls with theta_max",
        f"30 channels {show(needed[30])}; 15 channels {show(needed[15])}",
        all(_never_rises(list(caps.values())) for caps in needed.values()),
    )
    tolerances = list(r.curve("table_size", "tolerance", figure="18"))
    grown = {t: r.series("table_size", figure="18", tolerance=t) for t in tolerances}
    after = {t: sizes[511] for t, sizes in grown.items()}
    yield judge(
        "fig18-1",
        "under MinMig the table grows faster the smaller the tolerance",
        "size after 512 adjustments falls with theta_max",
        show(after),
        trend(after) <= -RISING,
    )
    final = {t: sizes[-1] for t, sizes in grown.items()}
    yield judge(
        "fig18-2",
        "whatever the tolerance, MinMig's table tends to K (N - 1) / N, about 9,350 of 10,000 keys",
        "9,350 within 5 %",
        show(final),
        all(abs(size / 9350 - 1) <= 0.05 for size in final.values()),
        "after 8,192 adjustments",
    )


def judge_windows(r: Results) -> Iterator[Claim]:
    """Judge Figures 19 to 21: the window and the exponent."""
    moved = {p: r.curve("migration_share", "window", figure="19", planner=p) for p in BOTH}
    ratio = {w: moved["mixed"][w] / moved["mintable"][w] for w in moved["mixed"]}
    yield judge(
        "fig19-1",
        "Mixed migrates less than MinTable for every window",
        "state moved, Mixed / MinTable, below 1",
        show(ratio),
        max(ratio.values()) < 1,
    )
    yield judge(
        "fig19-2",
        "Mixed migrates less the longer the window",
        "share of state moved falls with w",
        show(moved["mixed"]),
        trend(moved["mixed"]) <= -RISING,
    )
    size = r.curve("table_size", "exponent", figure="20")
    yield judge(
        "fig20-1",
        "the table shrinks with the exponent",
        "smaller at beta = 2 than at beta = 1",
        show(size),
        size[2.0] < size[1.0] and trend(size) <= 0,
        "with w = 1 state equals cost: at beta = 1 all keys rank alike and the lowest ids go, beyond 1 the hottest do",
    )
    flat = [x for beta, x in size.items() if beta >= 1.5]
    yield judge(
        "fig20-2",
        "the table is of one size for exponents from 1.5 to 2",
        "within 10 %",
        show({b: x for b, x in size.items() if b >= 1.5}),
        max(flat) <= 1.1 * min(flat),
    )
    moved_share = r.curve("migration_share", "exponent", figure="20")
    yield judge(
        "fig21-1",
        "migration rises with the exponent",
        "more state moved at beta = 2 than at beta = 1",
        show(moved_share),
        moved_share[2.0] > moved_share[1.0],
    )


def judge_theorems(r: Results) -> Iterator[Claim]:
    """Judge the theorems, and what the text says of Mixed."""
    tried = int(sum(r.values("instances", figure="theorems")))
    failed = {
        name: int(sum(r.values(name, figure="theorems")))
        for name in (
            "theorem_1",
            "theorem_2",
            "theorem_2_fallback",
            "theorem_4",
            "theorem_4_fallback",
            "table",
            "migration",
        )
    }
    for id, name, claim, reason in (
        (
            "theorem-1",
            "theorem_1",
            "if a perfect assignment exists and no key reaches the mean, the overload is at most (1 - 1/N) / 3",
            "or the tolerance, where that is higher; the overload side only",
        ),
        (
            "theorem-2",
            "theorem_2",
            "Mixed is never worse balanced than LLFD",
            f"both are heuristics that force a key when none fits; with `fallback` {failed['theorem_2_fallback']} fail",
        ),
        (
            "theorem-4",
            "theorem_4",
            "Mixed is never worse balanced than Simple",
            "the proof takes for granted that a key which fits under another plan fits under this one; with `fallback` "
            f"{failed['theorem_4_fallback']} fail",
        ),
        (
            "trend-table",
            "table",
            "the table of Mixed is never smaller than MinTable's",
            "a trend, not a rule: both only approximate the smallest table",
        ),
        (
            "trend-migration",
            "migration",
            "the migration of Mixed is never less than MinMig's",
            "a trend, not a rule: cleaning can happen to put a key where it is needed",
        ),
    ):
        measured = f"fails in {failed[name]} of {tried} random problems"
        yield judge(id, claim, "always", measured, failed[name] == 0, reason)
    skewed, equal = (r.value(f"deviation_{kind}", figure="theorems") for kind in ("zipf", "equal"))
    yield judge(
        "theorem-3",
        "discretisation can always be done with a total deviation near 0",
        "0",
        f"{skewed:.5f} of the sum for Zipf counts with R = 8; {equal:.2f} if all values are 180 and R = 256",
        max(skewed, equal) <= 0.01,
        "true of skewed values with many small ones, not of values that all lie between two representatives",
    )


def _sufficient_cap(r: Results, channels: int, tolerance: float) -> float:
    """Return the smallest cap at which Mixed no longer overflows."""
    overflowing = r.curve("table_overflow", "table_cap", figure="17", channels=channels, tolerance=tolerance)
    return float(min((cap for cap, share in overflowing.items() if share == 0), default=2 * max(overflowing)))


def _never_rises(values: list[float]) -> bool:
    return values[0] > values[-1] and all(a >= b for a, b in pairwise(values))
