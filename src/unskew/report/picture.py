"""One picture, before and after: what skew does to a saturated stream under Spark's hash, and under unskew."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew.report.headline import EXPONENT, HASH, IDEAL, THROUGHPUT, best_planner, skew_rows
from unskew.report.plots import GREEN, GREY, INK, RED, new_figure, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH = "batch, median"
WIDTH = 0.27


def draw_before_after(records: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw batch times of one stream and the throughput over skews as SVG; return whether there was something to draw.

    Batch times are drawn if the benchmark kept them as samples.
    """
    from matplotlib.patches import Patch

    rows = skew_rows(records, THROUGHPUT)
    ours = best_planner(rows)
    if ours is None or HASH not in rows:
        return False
    colours = {HASH: RED, ours: GREEN, IDEAL: GREY}
    seconds = {who: row["samples"] for who, row in skew_rows(records, BATCH).items() if row["samples"]}
    has_seconds = {HASH, ours} <= set(seconds)
    figure, axes = new_figure(3.0, columns=1 + has_seconds, width=9.0 if has_seconds else 5.0)
    if has_seconds:
        _draw_batches(axes[0], {who: seconds[who] for who in colours if who in seconds}, colours)
    _draw_throughput(axes[-1], records)
    handles = [Patch(color=colour, label=_label(who)) for who, colour in colours.items()]
    figure.legend(handles=handles, frameon=False, fontsize=9, ncols=3, loc="outside upper left")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.set_facecolor("white")
    path.write_text(svg(figure, salt="before and after", transparent=False), encoding="utf-8")
    return True


def _draw_batches(axes: Axes, seconds: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    for who, values in seconds.items():
        axes.plot(range(1, len(values) + 1), values, color=colours[who], linewidth=1.4)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"batch, {EXPONENT} keys")
    axes.set_ylabel("seconds per batch")


def _draw_throughput(axes: Axes, records: Sequence[Mapping[str, Any]]) -> None:
    skews = sorted(
        {
            float(found[1])
            for record in records
            if record["benchmark"] == "skew"
            for row in record["rows"]
            if (found := re.fullmatch(rf"Zipf ([\d.]+): {re.escape(THROUGHPUT)}", row["name"]))
        }
    )
    names = []
    for place, skew in enumerate(skews):
        rows = skew_rows(records, THROUGHPUT, f"Zipf {skew}:")
        ours = best_planner(rows, splitting=True)
        bars = [(who, colour) for who, colour in ((HASH, RED), (ours, GREEN), (IDEAL, GREY)) if who in rows]
        for number, (who, colour) in enumerate(bars):
            value = float(rows[str(who)]["value"])
            axes.bar(place + (number - 1) * WIDTH, value, WIDTH * 0.92, color=colour)
            axes.text(
                place + (number - 1) * WIDTH, value, f"{value:.2f}", ha="center", va="bottom", fontsize=8, color=INK
            )
        names.append(f"Zipf {skew:g}" + ("\nsplit keys" if ours and "split" in ours else ""))
    axes.set_xticks(range(len(skews)), names)
    axes.set_ylabel("throughput, ideal = 1")


def _label(who: str) -> str:
    return {IDEAL: "round robin (ideal)", HASH: HASH}.get(who, f"unskew ({who})")
