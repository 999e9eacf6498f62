"""Plots of runs side by side: who waits how long, when, and where."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unskew_lab.simulation.queueing.run import QueueingRun

matplotlib.use("Agg")

COLOURS = {"smalops": "tab:blue", "kafka": "tab:red", "round-robin": "tab:green"}
PERCENTILES = np.concatenate([np.arange(0, 99, 1.0), np.arange(99, 99.95, 0.1)])
LEAST_MICROSECONDS = 1.0  # where no wait at all stands on a logarithmic axis


def draw_runs(runs: Sequence[QueueingRun], path: Path) -> None:
    """Draw the distribution of the delays, their 99th percentile over time, and the messages of each partition."""
    drawing = Figure(figsize=(14, 4.2), layout="constrained")
    distribution, over_time, loads = drawing.subplots(1, 3)
    for place, run in enumerate(runs):
        colour = COLOURS.get(run.contender, COLOURS["smalops"])
        draw_distribution(distribution, run, run.contender, colour)
        second = run.arrival_seconds.astype(int)
        cuts = np.searchsorted(second, np.arange(second[-1] + 2))
        for which, style in (("broker", "-"), ("end_to_end", ":")):
            delays = run.broker_seconds if which == "broker" else run.end_to_end_seconds
            late = [np.quantile(delays[a:b], 0.99) if b > a else np.nan for a, b in pairwise(cuts)]
            over_time.plot(np.maximum(1e6 * np.array(late), LEAST_MICROSECONDS), style, color=colour)
        places = np.arange(len(run.messages)) + 0.27 * (place - 1)
        loads.bar(places, np.sort(run.messages)[::-1] / run.messages.mean(), 0.27, color=colour)
    distribution.set(
        xlabel="percentile", ylabel="delay, us", yscale="log", title="solid: in the broker; dotted: held too"
    )
    distribution.legend(fontsize="small")
    over_time.set(xlabel="seconds", ylabel="99th percentile of the delay, us", yscale="log")
    loads.set(xlabel="partitions, the fullest first", ylabel="messages over the mean")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawing.savefig(path, dpi=110)


def draw_distribution(axis: Axes, run: QueueingRun, label: str, colour: str) -> None:
    """Draw delay over percentile: in the broker as a line, until processing begins as dots."""
    for which, style, name in (("broker", "-", label), ("end_to_end", ":", "_")):
        delays = 1e6 * run.quantiles(which, levels=PERCENTILES / 100)
        axis.plot(PERCENTILES, np.maximum(delays, LEAST_MICROSECONDS), style, color=colour, label=name)
