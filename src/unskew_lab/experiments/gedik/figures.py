"""The paper's figures, drawn from what was measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from unskew_lab.experiments.drawing import picture
from unskew_lab.experiments.gedik.grid import METHODS, RESOURCES, TABLES, UTILITIES
from unskew_lab.experiments.gedik.results import Curve, Results

COLOURS = dict(zip(METHODS, ("tab:gray", "tab:orange", "tab:brown", "tab:green", "tab:blue", "tab:red"), strict=True))
MEASURES = {"m": "relative migration m", "b": "relative imbalance b"}


def draw_all(r: Results, folder: Path) -> None:
    """Write one PNG file per figure."""
    _bars(r, folder / "figure-03.png")
    _sweeps(partial(_over_skew, r), ("LCL", "LLL", "LQL"), "skew z", folder / "figure-04.png")
    _sweeps(partial(_over_scale, r), ("LCL", "LQL"), "threshold scale sigma", folder / "figure-05.png", log=True)
    _sweeps(lambda n, x, c: r.by_channels(n, x), ("LCL",), "channels N", folder / "figure-06.png")
    _utilities(r, folder / "figure-07.png")
    _sweeps(lambda n, x, c: r.curve(n, x, "keys"), ("LCL",), "keys |D|", folder / "figure-08.png", log=True)
    _sizes(r, "scale", "threshold scale sigma", folder / "figure-09.png", log=True)
    _sizes(r, "skew", "skew z", folder / "figure-10.png")
    _sizes(r, "channels", "channels N", folder / "figure-11.png")
    _seconds({t: r.curve("seconds", t, "scale") for t in TABLES}, "threshold scale sigma", folder / "figure-12.png")
    with_ring = {t: r.by_channels("seconds", t) for t in TABLES} | {"ring": r.by_channels("ring_seconds", "scan")}
    _seconds(with_ring, "channels N", folder / "figure-13.png")
    _seconds({t: r.curve("seconds", t, "skew") for t in TABLES}, "skew z", folder / "figure-14.png")
    _sweeps(
        lambda n, x, c: r.curve(n, x, "balance_ratio") if x in TABLES else {},
        ("LCL",),
        "balance ratio alpha",
        folder / "balance-ratio.png",
    )


def _over_skew(r: Results, name: str, method: str, resources: str) -> Curve:
    """Return a sweep over the skew, for LQL up to 0.5 as in the paper."""
    most = 0.5 if resources == "LQL" else 1.0
    return {z: v for z, v in r.curve(name, method, "skew", resources=resources).items() if z <= most}


def _over_scale(r: Results, name: str, method: str, resources: str) -> Curve:
    """Return a sweep over sigma in which hashing alone, which knows no sigma, is a level line."""
    if method in TABLES:
        return r.curve(name, method, "scale", resources=resources)
    scales = r.curve(name, "scan", "scale", resources=resources)
    return dict.fromkeys(scales, r.value(name, method, resources=resources))


def _sweeps(
    curve: Callable[[str, str, str], Curve], combinations: Sequence[str], label: str, path: Path, log: bool = False
) -> None:
    with picture(path, 9, 3.2 * len(combinations), len(combinations), 2, squeeze=False) as axes:
        for row, resources in zip(axes, combinations, strict=True):
            for axis, (name, title) in zip(row, MEASURES.items(), strict=True):
                for method in METHODS:
                    _line(axis, curve(name, method, resources), method)
                axis.axhline(1.0, color="black", linewidth=0.6)
                axis.set(xlabel=label, ylabel=title, title=resources, yscale="log" if name == "m" else "linear")
                if log:
                    axis.set_xscale("log")
        axes[0][0].legend(fontsize="small")


def _line(axis: Axes, curve: Curve, name: str) -> None:
    if curve:
        axis.plot(list(curve), list(curve.values()), marker=".", label=name, color=COLOURS.get(name))


def _bars(r: Results, path: Path) -> None:
    """Draw what the paper shows as radar charts: m, b and the three parts of b."""
    names = ("m", "b", "b_memory", "b_compute", "b_network")
    with picture(path, 10, 7, 2, 2) as axes:
        for axis, resources in zip(axes.flat, RESOURCES, strict=True):
            for place, method in enumerate(METHODS):
                values = [r.value(name, method, resources=resources) for name in names]
                axis.bar(np.arange(len(names)) + place / 8, values, 1 / 8, label=method, color=COLOURS[method])
            axis.set_xticks(np.arange(len(names)) + 0.3, names)
            axis.set(yscale="log", title=resources)
            axis.axhline(1.0, color="black", linewidth=0.6)
        axes.flat[0].legend(fontsize="small")


def _utilities(r: Results, path: Path) -> None:
    with picture(path, 9, 6, 2, 2) as axes:
        for row, method in zip(axes, ("readj", "redist"), strict=True):
            for axis, (name, title) in zip(row, MEASURES.items(), strict=True):
                for place, utility in enumerate(UTILITIES):
                    values = [r.value(name, method, resources=c, utility=utility) for c in RESOURCES[1:]]
                    axis.bar(np.arange(3) + place / 6, values, 1 / 6, label=utility.upper())
                axis.set_xticks(np.arange(3) + 0.33, RESOURCES[1:])
                axis.set(title=method, ylabel=title)
        axes.flat[0].legend(fontsize="small")


def _sizes(r: Results, over: str, label: str, path: Path, log: bool = False) -> None:
    with picture(path, 9, 3.4, 1, 2) as (counter, table):
        for resources in ("LCL", "LLL", "LQL"):
            _line(counter, r.curve("entries", "counter", over, resources=resources), resources)
            size = r.curve("table", "scan", over, resources=resources)
            size = r.by_channels("table", "scan") if over == "channels" else size
            _line(table, size, resources)
        counter.set(xlabel=label, title="entries of the counter", yscale="log")
        table.set(xlabel=label, title="entries of the table")
        for axis in (counter, table):
            axis.legend(fontsize="small")
            if log:
                axis.set_xscale("log")


def _seconds(curves: Mapping[str, Curve], label: str, path: Path) -> None:
    with picture(path, 5, 3.4) as axis:
        for name, curve in curves.items():
            _line(axis, {x: 1e3 * seconds for x, seconds in curve.items()}, name)
        axis.set(xlabel=label, ylabel="milliseconds to build", yscale="log")
        axis.legend(fontsize="small")
