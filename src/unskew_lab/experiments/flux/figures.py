"""The paper's figures, drawn from what was simulated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from unskew_lab.experiments.drawing import picture
from unskew_lab.experiments.flux.grid import FIGURES, NODES
from unskew_lab.experiments.flux.results import STEADY, Curve, Results
from unskew_lab.simulation.setup import LOADED_CAPACITY

COLOURS = {
    "unperturbed": "tab:gray",
    "unloaded": "tab:gray",
    "static": "tab:red",
    "exchange": "tab:red",
    "balanced": "tab:blue",
    "balanced-50ms": "tab:cyan",
    "policy": "tab:blue",
    "flux": "tab:blue",
    "river": "tab:green",
    "flux-load": "tab:orange",
    "flux-memory": "tab:green",
    "flux-hybrid": "tab:blue",
}
OVER_TIME = {  # whose runs, which of them, and what of them
    "6": ("6", ("unperturbed", "static", "balanced", "balanced-50ms"), "throughput"),
    "9": ("9", ("unperturbed", "static", "policy"), "throughput"),
    "10": ("9", ("static", "policy"), "latency"),
    "mixed": ("mixed", ("static", "flux-load", "flux-memory", "flux-hybrid"), "throughput"),
}


def draw_all(r: Results, folder: Path) -> None:
    """Write one PNG file per figure."""
    for figure in FIGURES:
        draw(figure, r, folder / (f"figure-{int(figure):02}.png" if figure.isdigit() else f"{figure}.png"))


def draw(figure: str, r: Results, path: Path) -> None:
    """Write one figure."""
    if figure in OVER_TIME:
        _over_time(r, *OVER_TIME[figure], path)
    else:
        {"3": _figure_3, "7": _figure_7, "8": _figure_8, "memory": _memory}[figure](r, path)


def _line(axis: Any, curve: Curve, name: str, scale: float = 1.0) -> None:
    axis.plot(list(curve), [scale * v for v in curve.values()], marker=".", label=name, color=COLOURS[name])


def _over_time(r: Results, figure: str, series: tuple[str, ...], measure: str, path: Path) -> None:
    with picture(path, 7, 4) as axis:
        for name in series:
            values = r.seconds(figure, name, measure)
            shown = 1e6 * values if measure == "latency" else values
            axis.plot(np.arange(len(values)) + 0.5, shown, label=name, color=COLOURS[name])
        if measure == "latency":
            axis.set(xlabel="seconds", ylabel="microseconds", yscale="log")
        else:
            axis.set(xlabel="seconds", ylabel="tuples per second", ylim=(0, None))
        axis.legend()


def _figure_3(r: Results, path: Path) -> None:
    with picture(path, 7, 4) as axis:
        for name in ("flux", "exchange", "river"):
            _line(axis, r.curve("3", name), name)
        axis.axhline(float(np.mean(r.each("3", "unloaded"))), label="unloaded", color=COLOURS["unloaded"])
        axis.set_xscale("symlog", linthresh=128, base=2)
        axis.set(xlabel="tuples of buffer per producer", ylabel="tuples per second", ylim=(0, None))
        axis.legend()


def _figure_7(r: Results, path: Path) -> None:
    with picture(path, 7, 4) as axis:
        for name in ("static", "balanced"):
            _line(axis, r.curve("7", name, last=STEADY), name)
        balanced = r.curve("7", "balanced")
        sites, top = np.array(list(balanced)), next(iter(balanced.values()))
        axis.plot(sites, top * (NODES - (1 - LOADED_CAPACITY) * sites) / NODES, ":", label="ideal", color="black")
        axis.set(xlabel="loaded machines", ylabel="tuples per second", ylim=(0, None))
        axis.legend()


def _figure_8(r: Results, path: Path) -> None:
    label = "shortest collection, seconds"
    with picture(path, 14, 4, columns=3) as (*rates, restless):
        for axis, data in zip(rates, ("self-similar", "two-class"), strict=True):
            moves = r.curve("8", "balanced", "moves", data=data, loaded=0)
            restless.plot(list(moves), list(moves.values()), marker=".", label=data)
            for loaded, style in ((0, "-"), (8, "--")):
                curve = r.curve("8", "balanced", data=data, loaded=loaded)
                name = f"balanced, {loaded} loaded"
                axis.plot(list(curve), list(curve.values()), style, marker=".", label=name, color="tab:blue")
                level = float(np.mean(r.each("8", "static", data=data, loaded=loaded)))
                axis.axhline(level, linestyle=style, label=f"static, {loaded} loaded", color="tab:red")
            axis.set(xlabel=label, ylabel="tuples per second", title=data, xscale="log", ylim=(0, None))
        restless.set(xlabel=label, ylabel="moves, no machine loaded", xscale="log", yscale="log")
        for axis in (rates[0], restless):
            axis.legend(fontsize="small")


def _memory(r: Results, path: Path) -> None:
    with picture(path, 10, 4, columns=2) as (left, right):
        for name in ("static", "policy"):
            for axis, measure, scale in ((left, "throughput", 1.0), (right, "latency", 1e6)):
                _line(axis, r.curve("memory", name, measure, last=STEADY), name, scale)
        left.set(xlabel="machines short of memory", ylabel="tuples per second", ylim=(0, None))
        right.set(xlabel="machines short of memory", ylabel="latency, microseconds", yscale="log")
        left.legend()
