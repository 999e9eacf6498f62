"""How a claim is judged, and how numbers are shown."""

from __future__ import annotations

from typing import Any

from unskew_lab.experiments.claims import Claim, Verdict
from unskew_lab.experiments.fang.results import Curve, Results

RISING, NEAR = 0.8, 0.3
"""A rank correlation from which a curve counts as rising, and the relative distance up to which numbers agree."""

BOTH = ("mixed", "mintable")


def judge(id: str, claim: str, expected: str, measured: str, holds: bool, reason: str = "") -> Claim:
    """Return the claim with its verdict; the figure follows from the id."""
    verdict: Verdict = "confirmed" if holds else "refuted"
    return Claim(
        id, figure_of(id), claim, expected, measured, verdict, reason or "the measured values speak for themselves"
    )


def figure_of(id: str) -> str:
    """Return the figure that an id names: 7a for fig7a-1."""
    head = id.partition("-")[0]
    return head.removeprefix("fig") if head.startswith("fig") else "text"


def mixed_over_mintable(r: Results, measure: str, over: str, **where: Any) -> Curve:
    """Return the measure of Mixed over that of MinTable."""
    mixed, table = (r.curve(measure, over, planner=p, **where) for p in BOTH)
    return {x: mixed[x] / table[x] for x in mixed if table[x] > 0}


def cheaper_with_history(id: str, r: Results, over: str, figure: str, planners: tuple[str, ...]) -> Claim:
    """Judge whether the longer window makes migration cheaper, over a sweep."""
    ratios = {}
    for planner in planners:
        one, five = (
            r.curve("migration_share", over, figure=figure, planner=planner, window=window) for window in (1, 5)
        )
        ratios.update({f"{planner} {x}": five[x] / one[x] for x in one if one[x] > 0})
    return judge(
        id,
        "a window of 5 intervals makes migration cheaper than a window of 1",
        "share of state moved, w = 5 / w = 1, below 1",
        show(ratios),
        max(ratios.values()) < 1,
        "the share is of the state of the whole window",
    )


def near(measured: float, expected: float) -> bool:
    """Tell whether two numbers agree."""
    return abs(measured / expected - 1) <= NEAR


def show(curve: Curve, scale: float = 1.0, unit: str = "") -> str:
    """Return a curve as text."""
    return ", ".join(f"{number(x)}: {number(y * scale)}{unit and ' ' + unit}" for x, y in curve.items())


def number(x: object) -> str:
    """Return a number with three digits, or whole from a thousand on; anything else as it is."""
    if not isinstance(x, int | float):
        return str(x)
    return f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.3g}"
