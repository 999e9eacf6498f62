"""Plots of a run, and of a study of scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from unskew_lab.simulation.record import Result
from unskew_lab.simulation.study import Point

matplotlib.use("Agg")


def draw_run(run: Result, path: Path) -> None:
    """Draw throughput, latency, how busy each site is, and what moved, over time."""
    drawing = Figure(figsize=(9, 8), layout="constrained")
    axes = drawing.subplots(4, 1, sharex=True)
    seconds = np.arange(len(run.throughput)) + 0.5
    axes[0].plot(seconds, run.throughput)
    axes[0].set(ylabel="tuples per second", ylim=(0, None))
    axes[1].plot(seconds, 1e6 * run.latency_seconds)
    axes[1].set(ylabel="latency, us", yscale="log")
    shown = axes[2].imshow(
        run.busy_share.T, aspect="auto", vmin=0, vmax=1, extent=(0, len(seconds), len(run.busy_share.T), 0)
    )
    axes[2].set(ylabel="site")
    drawing.colorbar(shown, ax=axes[2], label="busy")
    axes[3].plot(seconds, 100 * run.pool_share, label="pools full, %")
    axes[3].plot(seconds, 100 * run.blocked_share, label="producers blocked, %")
    axes[3].plot(seconds, run.on_disk, label="partitions on disk")
    moved = np.histogram([r.seconds for r in run.rounds for _ in r.moves], bins=np.arange(len(seconds) + 1))[0]
    axes[3].plot(seconds, moved, label="moves")
    axes[3].set(xlabel="seconds")
    axes[3].legend(fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110)


def draw_scale(points: Sequence[Point], path: Path) -> None:
    """Draw imbalance, migration, planning time and table size over the channels, a row for each number of keys."""
    measures = {
        "imbalance": "imbalance after a plan",
        "imbalance_next": "imbalance in the next interval",
        "migrated_share": "migrated share of state",
        "planning_seconds": "seconds for a plan",
        "table_size": "entries in the table",
    }
    sizes = sorted({point.keys for point in points})
    names = list(dict.fromkeys(point.planner for point in points))
    colours = matplotlib.colormaps["tab20"].colors  # type: ignore[attr-defined]
    drawing = Figure(figsize=(18, 3.4 * len(sizes)), layout="constrained")
    axes = drawing.subplots(len(sizes), len(measures), squeeze=False)
    for row, keys in zip(axes, sizes, strict=True):
        for axis, (measure, label) in zip(row, measures.items(), strict=True):
            for name, colour in zip(names, colours, strict=False):
                mine = sorted((p for p in points if p.planner == name and p.keys == keys), key=lambda p: p.channels)
                values = [max(getattr(p, measure), 0.5 if measure == "table_size" else 1e-4) for p in mine]
                axis.plot([p.channels for p in mine], values, marker=".", label=name, color=colour)
            axis.set(xscale="log", yscale="log", xlabel="channels", ylabel=label, title=f"{keys:,} keys")
    handles, labels = axes[0][0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside right center", fontsize="small")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=100)
