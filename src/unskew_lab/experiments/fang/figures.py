"""The paper's figures, drawn from our trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from unskew_lab.experiments.drawing import picture
from unskew_lab.experiments.fang.results import Curve, Results

MARKS = {"mixed": "o-", "mintable": "s--", "mixedbf": "^:", "readj": "d-.", "minmig": "v-"}


def figures(results: Results, folder: Path) -> list[Path]:
    """Draw all figures into `folder`; returns the files."""
    drawn = []
    for name, draw in _FIGURES.items():
        drawn.append(folder / f"fang_{name}.png")
        with picture(drawn[-1], 9, 3.6, columns=2) as (left, right):
            draw(results, left, right)
    return drawn


def _load_distribution(r: Results, left: Axes, right: Axes) -> None:
    for axes, name, over in ((left, "7a", "channels"), (right, "7b", "keys")):
        for point in r.curve("sorted_loads", over, figure=name):
            loads = r.series("sorted_loads", figure=name, **{over: point})
            axes.plot(loads, np.linspace(0, 1, len(loads)), label=f"{point:,} {over}")
        _finish(axes, "load / mean", "share of channels")


def _sweep(r: Results, left: Axes, right: Axes, *, name: str, over: str, log: bool = False) -> None:
    for planner in ("mixed", "mintable"):
        for window in (1, 5):
            where: dict[str, Any] = {"figure": name, "planner": planner, "window": window}
            title = f"{planner}, w = {window}"
            fill = "full" if window == 1 else "none"
            _line(left, r.curve("plan_seconds", over, np.median, **where), planner, title, 1e3, fill)
            _line(right, r.curve("migration_share", over, **where), planner, title, 100, fill)
    _finish(left, over, "planning time [ms]", log_x=log, log_y=log)
    _finish(right, over, "state moved [%]", log_x=log)


def _compact(r: Results, left: Axes, right: Axes) -> None:
    degrees = sorted({t.degree for t, _ in r.rows if t.figure == "11" and t.degree >= 0})
    for measure, label in (("plan_seconds", "plan and find the keys"), ("records_seconds", "plan")):
        curve = {2.0**d: r.value(measure, np.median, figure="11", degree=d) for d in degrees}
        _line(left, curve, "mixed" if measure == "plan_seconds" else "mintable", label, 1e3)
    left.axhline(1e3 * r.value("plan_seconds", np.median, figure="11", degree=-1), color="gray", label="on keys")
    errors = {2.0**d: r.value("load_error", figure="11", degree=d) for d in degrees}
    _line(right, errors, "mixed", "largest error of a load", 100)
    _finish(left, "R", "planning time [ms]", log_x=True)
    _finish(right, "R", "error of estimated loads [%]", log_x=True)


def _rates(r: Results, left: Axes, right: Axes) -> None:
    lines: dict[str, dict[str, Any]] = {planner: {"planner": planner} for planner in ("mixed", "mixedbf")}
    for scale in r.curve("plan_seconds", "threshold_scale", figure="12", planner="readj"):
        lines[f"readj, sigma = {scale}"] = {"planner": "readj", "threshold_scale": scale}
    for label, where in lines.items():
        _line(left, r.curve("plan_seconds", "rate", figure="12", **where), where["planner"], label, 1e3)
        _line(right, r.curve("migration_share", "rate", figure="12", **where), where["planner"], label, 100)
    _finish(left, "fluctuation rate f", "planning time [ms]", log_y=True)
    _finish(right, "fluctuation rate f", "state moved [%]")


def _caps(r: Results, left: Axes, right: Axes) -> None:
    for axes, channels, title in ((left, 30, "30 channels, 1,000,000 keys"), (right, 15, "15 channels, 100,000 keys")):
        for tolerance in r.curve("migration_share", "tolerance", figure="17", channels=channels):
            curve = r.curve("migration_share", "table_cap", figure="17", channels=channels, tolerance=tolerance)
            _line(axes, curve, "mixed", f"tolerance {tolerance}", 100)
        axes.set_title(title, fontsize=9)
        _finish(axes, "cap of the table", "state moved [%]", log_x=True)


def _growth(r: Results, left: Axes, right: Axes) -> None:
    for tolerance in r.curve("table_size", "tolerance", figure="18"):
        sizes = r.series("table_size", figure="18", tolerance=tolerance)
        left.plot(np.arange(1, len(sizes) + 1), sizes, label=f"tolerance {tolerance}")
    left.axhline(10_000 * 14 / 15, color="gray", linestyle=":", label="K (N - 1) / N")
    for planner in ("mixed", "mintable"):
        _line(right, r.curve("migration_share", "window", figure="19", planner=planner), planner, planner, 100)
    _finish(left, "adjustments", "entries in the table", log_x=True)
    _finish(right, "window w (Figure 19)", "state moved [%]")


def _exponents(r: Results, left: Axes, right: Axes) -> None:
    _line(left, r.curve("table_size", "exponent", figure="20"), "minmig", "minmig", 1)
    _line(right, r.curve("migration_share", "exponent", figure="20"), "minmig", "minmig", 100)
    _finish(left, "exponent beta", "entries in the table", log_y=True)
    _finish(right, "exponent beta (Figure 21)", "state moved [%]")


def _line(axes: Axes, curve: Curve, mark: str, label: str, scale: float, fill: str = "full") -> None:
    axes.plot(list(curve), [scale * y for y in curve.values()], MARKS[mark], label=label, markersize=4, fillstyle=fill)


def _finish(axes: Axes, x: str, y: str, *, log_x: bool = False, log_y: bool = False) -> None:
    axes.set(xlabel=x, ylabel=y)
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


_FIGURES: dict[str, Callable[[Results, Axes, Axes], None]] = {
    "7_load_distribution": _load_distribution,
    "8_channels": partial(_sweep, name="8", over="channels"),
    "9_tolerance": partial(_sweep, name="9", over="tolerance"),
    "10_keys": partial(_sweep, name="10", over="keys", log=True),
    "11_compact": _compact,
    "12_fluctuation": _rates,
    "17_table_cap": _caps,
    "18_19_growth_and_window": _growth,
    "20_21_exponent": _exponents,
}
