"""The paper's figures, drawn from what was simulated."""

from __future__ import annotations

from pathlib import Path

from matplotlib.axes import Axes

from unskew_lab.experiments.drawing import picture
from unskew_lab.experiments.smalops.grid import CONTENDERS, SERVICES
from unskew_lab.experiments.smalops.results import Results
from unskew_lab.simulation.queueing.figures import COLOURS, LEAST_MICROSECONDS

DELAY = "queueing delay, us"


def draw_all(r: Results, folder: Path) -> None:
    """Write one PNG file for each of Figures 7 to 10."""
    for number, draw in enumerate((_figure_7, _figure_8, _figure_9, _figure_10), start=7):
        draw(r, folder / f"figure-{number:02}.png")


def _distribution(axis: Axes, curve: dict[float, float], label: str, colour: str, style: str = "-") -> None:
    axis.plot(list(curve), [max(v, LEAST_MICROSECONDS) for v in curve.values()], style, color=colour, label=label)


def _figure_7(r: Results, path: Path) -> None:
    partitions = r.tried("partitions", figure="7")
    with picture(path, 9, 3.4 * len(partitions), len(partitions), 2, squeeze=False) as axes:
        for row, n in zip(axes, partitions, strict=True):
            for axis, service in zip(row, (20.0, 50.0), strict=True):
                for who in CONTENDERS:
                    where = {"figure": "7", "contender": who, "partitions": n, "service_us": service}
                    _distribution(axis, r.curve(**where), who, COLOURS[who])
                    _distribution(axis, r.curve("end_to_end all", **where), "_", COLOURS[who], ":")
                axis.set(title=f"{service:g} us, {n} partitions", xlabel="percentile", ylabel=DELAY, yscale="log")
        axes.flat[0].legend(fontsize="small", title="dotted: with holds")


def _figure_8(r: Results, path: Path) -> None:
    partitions = r.tried("partitions", figure="7")
    with picture(path, 4.2 * len(partitions), 3.4, 1, len(partitions), squeeze=False) as axes:
        for axis, n in zip(axes[0], partitions, strict=True):
            for who in CONTENDERS:
                for part, style in (("all", "-"), ("last", "--")):
                    curve = {
                        t: r.p99(f"broker {part}", figure="7", contender=who, partitions=n, service_us=t)
                        for t in SERVICES
                    }
                    _distribution(axis, curve, who if part == "all" else "_", COLOURS[who], style)
            axis.set(title=f"{n} partitions", xlabel="us per message", ylabel="99th percentile, us", yscale="log")
        axes.flat[0].legend(fontsize="small", title="dashed: last window")


def _figure_9(r: Results, path: Path) -> None:
    with picture(path, 9, 3.4, 1, 2) as axes:
        labels = {"cover": "share of the messages that hot keys cover", "share": "share of the messages of a hot key"}
        for axis, (hot_by, label) in zip(axes, labels.items(), strict=True):
            tried = r.tried("hot_threshold", figure="9", hot_by=hot_by)
            for part, style in (("all", "-"), ("warm", "--")):
                delays = [1e-6 * r.p99(f"broker {part}", figure="9", hot_by=hot_by, hot_threshold=t) for t in tried]
                name = "whole run" if part == "all" else "without the first window"
                axis.plot(tried, delays, style, color="tab:blue", label=name)
            axis.set(xlabel=label, ylabel="99th percentile, s", xscale="log", ylim=(0, None))
            axis.set_xticks(tried, [f"{t:g}" for t in tried])
            axis.minorticks_off()
            beside = axis.twinx()
            keys = [r.value("hot_keys", figure="9", hot_by=hot_by, hot_threshold=t) for t in tried]
            beside.plot(tried, keys, ".:", color="tab:gray")
            beside.set(ylabel="hot keys (dotted)", yscale="log")
        axes.flat[0].legend(fontsize="small")


def _figure_10(r: Results, path: Path) -> None:
    shifts = r.tried("shift", figure="10")
    with picture(path, 4.2 * len(shifts), 6.4, 2, len(shifts), squeeze=False) as axes:
        for row, service in zip(axes, (20.0, 50.0), strict=True):
            for axis, shift in zip(row, shifts, strict=True):
                for who in CONTENDERS[:2]:
                    where = {"figure": "10", "contender": who, "shift": shift, "service_us": service}
                    _distribution(axis, r.curve(**where), who, COLOURS[who])
                    _distribution(axis, r.curve("end_to_end all", **where), "_", COLOURS[who], ":")
                axis.set(title=f"shift {shift:,}, {service:g} us", xlabel="percentile", ylabel=DELAY, yscale="log")
        axes.flat[0].legend(fontsize="small", title="dotted: with holds")
