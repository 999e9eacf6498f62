"""The paper's figures, drawn from what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from unskew_lab.experiments.drawing import picture
from unskew_lab.experiments.pkg.grid import GRAPHS, REAL, SKEWED, SOURCES, STAND_INS, WORKERS, ZIPF_1_2
from unskew_lab.experiments.pkg.results import Curve, Results

LEAST = 1e-8  # where a perfect balance stands on a logarithmic axis
FRACTION = "imbalance, fraction of the tuples"


def draw_all(r: Results, folder: Path) -> None:
    """Write one PNG file for Table 2 and each figure."""
    _table_2(r, folder / "table-2.png")
    for number, draw in enumerate((_figure_4, _figure_5, _figure_6, _figure_7, _figure_8, _figure_9), start=4):
        draw(r, folder / f"figure-{number:02}.png")


def _line(axis: Axes, curve: Curve, label: str, **style: Any) -> None:
    axis.plot(list(curve), [max(value, LEAST) for value in curve.values()], marker=".", label=label, **style)


def _table_2(r: Results, path: Path) -> None:
    with picture(path, 9, 3.6, 1, 2, sharey=True) as axes:
        for axis, data in zip(axes, ("wp", "tw"), strict=True):
            for scheme in ("key", "static-potc", "on-greedy", "off-greedy", "pkg"):
                where = {"figure": "table 2", "data": data, "scheme": scheme, "sources": 1, "estimate": "global"}
                _line(axis, {n: r.value("end", n, **where) for n in WORKERS}, scheme)
            axis.set(xlabel="workers", title=data, xscale="log", yscale="log", ylabel=FRACTION)
        axes.flat[0].legend(fontsize="small")


def _figure_4(r: Results, path: Path) -> None:
    with picture(path, 12, 6, 2, 5, sharey=True) as axes:
        for axis, data in zip(axes.flat, (*STAND_INS, *REAL), strict=True):
            lines: dict[str, dict[str, Any]] = {"H": {"scheme": "key", "sources": 1}}
            lines |= {"G": {"sources": 1, "estimate": "global"}}
            lines |= {f"L{s}": {"sources": s} for s in SOURCES}
            for name, where in lines.items():
                _line(axis, {n: r.value("average", n, figure="4", data=data, **where) for n in WORKERS}, name)
            axis.set(title=data, xscale="log", yscale="log", xlabel="workers")
        axes.flat[0].set_ylabel(FRACTION)
        axes.flat[0].legend(fontsize="x-small")


def _figure_5(r: Results, path: Path) -> None:
    with picture(path, 12, 8, 3, 4, sharey=True) as axes:
        for row, data in zip(axes, ("tw", "wp", "ct"), strict=True):
            for axis, n in zip(row, WORKERS, strict=True):
                for name, estimate, probes in (("G", "global", 0), ("L5", "local", 0), ("L5P1", "probed", 1440)):
                    curve = r.over_time(n, figure="5", data=data, estimate=estimate, probes=probes)
                    _line(axis, {(i + 1) / len(curve): value for i, value in enumerate(curve)}, name)
                axis.set(title=f"{data}, {n} workers", yscale="log")
            row[0].set_ylabel("I(t) / t")
        axes.flat[0].legend(fontsize="small")


def _figure_6(r: Results, path: Path) -> None:
    with picture(path, 5, 3.4) as axis:
        for s in (5, 10, 20):
            curve = {
                z: 100 * (1 - r.value("equal", 5, figure="6", data="zipf", exponent=z, keys=10_000, sources=s))
                for z in r.tried("exponent", figure="6", data="zipf")
            }
            _line(axis, curve, f"{s} sources")
        axis.set(xlabel="exponent z", ylabel="% of choices unlike the oracle's", ylim=(0, None))
        axis.legend(fontsize="small")


def _figure_7(r: Results, path: Path) -> None:
    with picture(path, 12, 3.4, 1, 4, sharey=True) as axes:
        exponents = r.tried("exponent", figure="7", data="zipf")
        for axis, n in zip(axes, WORKERS, strict=True):
            for keys in r.tried("keys", figure="7", data="zipf"):
                where: dict[str, Any] = {"figure": "7", "data": "zipf", "keys": keys}
                _line(axis, {z: r.value("end", n, exponent=z, **where) for z in exponents}, f"{keys:,} keys")
            axis.set(title=f"{n} workers", xlabel="exponent z", yscale="log")
        axes.flat[0].set_ylabel(FRACTION)
        axes.flat[0].legend(fontsize="small")


def _figure_8(r: Results, path: Path) -> None:
    graphs = {name: law for name, law in GRAPHS.items() if r.tried("sources", figure="8", data="edges", **law)}
    with picture(path, 5 * len(graphs), 3.6, 1, len(graphs), squeeze=False) as axes:
        for axis, (graph, law) in zip(axes[0], graphs.items(), strict=True):
            for n in WORKERS:
                for feed, style in (("round-robin", "-"), ("hash", "--")):
                    where = {"figure": "8", "data": "edges", "feed": feed, **law}
                    curve = {s: r.value("average", n, sources=s, **where) for s in SOURCES}
                    _line(axis, curve, f"{n} workers, {feed}", linestyle=style)
            axis.set(title=graph, xlabel="sources", yscale="log", ylabel=FRACTION)
            axis.legend(fontsize="x-small")


def _figure_9(r: Results, path: Path) -> None:
    with picture(path, 6, 4) as axis:
        for n in SKEWED["workers"]:
            where = {"figure": "9", "scheme": "greedy-d", **ZIPF_1_2}
            curve = {d: r.value("end", n, choices=d, **where) for d in r.tried("choices", figure="9")}
            _line(axis, curve, f"{n} workers")
        axis.set(xlabel="choices d", yscale="log", ylabel=FRACTION)
        axis.legend(fontsize="small")
