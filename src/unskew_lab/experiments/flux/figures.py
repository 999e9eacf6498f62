"""The paper's figures, drawn from what was simulated."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from unskew_lab.experiments.flux.results import STEADY, Results

matplotlib.use("Agg")

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


def draw_all(r: Results, folder: Path) -> None:
    """Write one PNG file per figure."""
    for figure in ("3", "6", "7", "8", "9", "10", "memory", "mixed"):
        draw(figure, r, folder / (f"figure-{int(figure):02}.png" if figure.isdigit() else f"{figure}.png"))


def draw(figure: str, r: Results, path: Path) -> None:
    """Write one figure."""
    match figure:
        case "3":
            _figure_3(r, path)
        case "6":
            _over_time(r, "6", ("unperturbed", "static", "balanced", "balanced-50ms"), "throughput", path)
        case "7":
            _figure_7(r, path)
        case "8":
            _figure_8(r, path)
        case "9":
            _over_time(r, "9", ("unperturbed", "static", "policy"), "throughput", path)
        case "10":
            _over_time(r, "9", ("static", "policy"), "latency", path)
        case "memory":
            _memory(r, path)
        case _:
            _over_time(r, "mixed", ("static", "flux-load", "flux-memory", "flux-hybrid"), "throughput", path)


def _over_time(r: Results, figure: str, series: tuple[str, ...], measure: str, path: Path) -> None:
    drawing = Figure(figsize=(7, 4), layout="constrained")
    axis = drawing.subplots()
    for name in series:
        values = r.seconds(figure, name, measure)
        shown = 1e6 * values if measure == "latency" else values
        axis.plot(np.arange(len(values)) + 0.5, shown, label=name, color=COLOURS[name])
    axis.set(xlabel="seconds", ylabel="tuples per second" if measure == "throughput" else "microseconds")
    if measure == "latency":
        axis.set_yscale("log")
    else:
        axis.set_ylim(bottom=0)
    axis.legend()
    drawing.savefig(path, dpi=120)


def _figure_3(r: Results, path: Path) -> None:
    drawing = Figure(figsize=(7, 4), layout="constrained")
    axis = drawing.subplots()
    for name in ("flux", "exchange", "river"):
        curve = r.curve("3", name)
        axis.plot(list(curve), list(curve.values()), marker=".", label=name, color=COLOURS[name])
    axis.axhline(float(np.mean(r.each("3", "unloaded"))), label="unloaded", color=COLOURS["unloaded"])
    axis.set_xscale("symlog", linthresh=128, base=2)
    axis.set(xlabel="tuples of buffer per producer", ylabel="tuples per second", ylim=(0, None))
    axis.legend()
    drawing.savefig(path, dpi=120)


def _figure_7(r: Results, path: Path) -> None:
    drawing = Figure(figsize=(7, 4), layout="constrained")
    axis = drawing.subplots()
    for name in ("static", "balanced"):
        curve = r.curve("7", name, last=STEADY)
        axis.plot(list(curve), list(curve.values()), marker=".", label=name, color=COLOURS[name])
    sites = np.array(list(r.curve("7", "balanced")))
    top = next(iter(r.curve("7", "balanced").values()))
    axis.plot(sites, top * (32 - 0.57 * sites) / 32, ":", label="ideal", color="black")
    axis.set(xlabel="loaded machines", ylabel="tuples per second", ylim=(0, None))
    axis.legend()
    drawing.savefig(path, dpi=120)


def _figure_8(r: Results, path: Path) -> None:
    drawing = Figure(figsize=(14, 4), layout="constrained")
    *rates, restless = drawing.subplots(1, 3)
    for axis, data in zip(rates, ("self-similar", "two-class"), strict=True):
        moves = r.curve("8", "balanced", "moves", data=data, loaded=0)
        restless.plot(list(moves), list(moves.values()), marker=".", label=data)
        for loaded, style in ((0, "-"), (8, "--")):
            curve = r.curve("8", "balanced", data=data, loaded=loaded)
            label = f"{loaded} loaded"
            axis.plot(
                list(curve), list(curve.values()), style, marker=".", label=f"balanced, {label}", color="tab:blue"
            )
            level = float(np.mean(r.each("8", "static", data=data, loaded=loaded)))
            axis.axhline(level, linestyle=style, label=f"static, {label}", color="tab:red")
        axis.set(
            xlabel="shortest collection, seconds", ylabel="tuples per second", title=data, xscale="log", ylim=(0, None)
        )
    restless.set(xlabel="shortest collection, seconds", ylabel="moves, no machine loaded", xscale="log", yscale="log")
    for axis in (rates[0], restless):
        axis.legend(fontsize="small")
    drawing.savefig(path, dpi=120)


def _memory(r: Results, path: Path) -> None:
    drawing = Figure(figsize=(10, 4), layout="constrained")
    left, right = drawing.subplots(1, 2)
    for name in ("static", "policy"):
        for axis, measure, scale in ((left, "throughput", 1.0), (right, "latency", 1e6)):
            curve = r.curve("memory", name, measure, last=STEADY)
            axis.plot(list(curve), [scale * v for v in curve.values()], marker=".", label=name, color=COLOURS[name])
    left.set(xlabel="machines short of memory", ylabel="tuples per second", ylim=(0, None))
    right.set(xlabel="machines short of memory", ylabel="latency, microseconds", yscale="log")
    left.legend()
    drawing.savefig(path, dpi=120)
