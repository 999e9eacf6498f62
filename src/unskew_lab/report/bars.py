"""The plot of a benchmark: contenders of one measurement as bars on one scale, with spread and target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unskew_lab.report.plots import BLUE, GREEN, GREY, INK, RED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

OURS = ("unskew", "Mixed", "lean", "drop-in")
MOST_PANELS, MOST_BARS = 10, 24
INCHES_PER_BAR = 0.27
INCHES_PER_TITLE = 0.42


@dataclass(frozen=True)
class Panel:
    """Bars on one scale: a title, and a label with its row for each."""

    title: str
    unit: str
    bars: Sequence[tuple[str, Mapping[str, Any]]]


def panels(rows: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Return what to draw: a panel for each measurement with several contenders, one per unit for all others.

    Panels with a target come first; beyond ten, and beyond 24 bars in one, the table has to do.

    >>> row = {"name": "hash", "contender": "unskew", "unit": "M/s", "target": None}
    >>> [panel.title for panel in panels([row, {**row, "contender": "numpy"}, {**row, "name": "look up"}])]
    ['hash', '']
    """
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    compared = [
        Panel(name, group[0]["unit"], [(row["contender"], row) for row in group])
        for name, group in by_name.items()
        if len(group) > 1
    ]
    single: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for name, group in by_name.items():
        if len(group) == 1:
            single.setdefault(group[0]["unit"], []).append((name, group[0]))
    found = [*compared, *(Panel("", unit, bars[:MOST_BARS]) for unit, bars in single.items())]
    return sorted(found, key=lambda panel: all(row["target"] is None for _, row in panel.bars))[:MOST_PANELS]


def draw(chosen: Sequence[Panel]) -> Figure:
    """Draw panels below each other, labels above their bars, so that it can be read on a phone."""
    from matplotlib.figure import Figure

    heights = [INCHES_PER_TITLE + 2 * INCHES_PER_BAR * len(panel.bars) for panel in chosen]
    figure = Figure(figsize=(5.2, sum(heights)), layout="constrained")
    axes = figure.subplots(len(chosen), 1, squeeze=False, height_ratios=heights)
    for panel, row in zip(chosen, axes, strict=True):
        _draw_panel(row[0], panel)
    return figure


def _draw_panel(axes: Axes, panel: Panel) -> None:
    widest = max((max(row["value"], row["target"] or 0) for _, row in panel.bars), default=1) or 1
    axes.set_title(panel.title, loc="left", fontsize=10, color=INK)
    for place, (label, row) in enumerate(panel.bars):
        value, spread = row["value"], row.get("spread") or 0
        height = -2 * place
        axes.barh(height, value, 0.8, color=_colour(row), xerr=spread / 2 if spread else None, ecolor=INK)
        axes.text(0, height + 0.9, label, va="center", fontsize=9, color=INK)
        end, target = value + spread / 2, row["target"]
        if target is not None:
            axes.plot([target] * 2, [height - 0.55, height + 0.55], color=INK, linewidth=1.5)
            if end <= target < end + 0.2 * widest:
                end = target  # or the line would cross the number
        axes.text(end, height, f"  {value:,.4g} {row['unit']}", va="center", fontsize=9, color=INK)
    axes.set_xlim(0, widest * 1.35)
    axes.set_ylim(-2 * len(panel.bars) + 1, 1.5)
    axes.axis("off")


def _colour(row: Mapping[str, Any]) -> str:
    if row.get("met") is not None:
        return GREEN if row["met"] else RED
    return BLUE if row["contender"].startswith(OURS) else GREY
