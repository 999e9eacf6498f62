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


def draw_before_after(records: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw batch times of one stream and the throughput over skews as SVG; return whether there was something to draw.

    Batch times are drawn if the benchmark kept them as samples.
    """
    rows = skew_rows(records, THROUGHPUT)
    ours = best_planner(rows)
    if ours is None or HASH not in rows:
        return False
    colours = {HASH: RED, ours: GREEN, IDEAL: GREY}
    seconds = {who: row["samples"] for who, row in skew_rows(records, BATCH).items() if row["samples"]}
    has_seconds = {HASH, ours} <= set(seconds)
    figure, axes = new_figure(2.9, columns=1 + has_seconds, width=9.0 if has_seconds else 5.0)
    if has_seconds:
        _draw_batches(axes[0], {who: seconds[who] for who in colours if who in seconds}, colours)
    _draw_throughput(axes[-1], records, colours)
    for each in axes:
        each.legend(frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.set_facecolor("white")
    path.write_text(svg(figure, salt="before and after", transparent=False), encoding="utf-8")
    return True


def _draw_batches(axes: Axes, seconds: Mapping[str, Sequence[float]], colours: Mapping[str, str]) -> None:
    for who, values in seconds.items():
        axes.plot(range(1, len(values) + 1), values, color=colours[who], label=_label(who), linewidth=1.4)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"batch ({EXPONENT} keys, other keys become hot)")
    axes.set_ylabel("seconds per batch")


def _draw_throughput(axes: Axes, records: Sequence[Mapping[str, Any]], colours: Mapping[str, str]) -> None:
    skews = sorted(
        {
            float(found[1])
            for record in records
            if record["benchmark"] == "skew"
            for row in record["rows"]
            if (found := re.fullmatch(rf"Zipf ([\d.]+): {re.escape(THROUGHPUT)}", row["name"]))
        }
    )
    width = 0.8 / len(colours)
    for number, (who, colour) in enumerate(colours.items()):
        values = [_value(records, skew, who) for skew in skews]
        places = [place + (number - 1) * width for place in range(len(skews))]
        axes.bar(places, values, width * 0.92, color=colour, label=_label(who))
        for place, value in zip(places, values, strict=True):
            axes.text(place, value, f"{value:.2f}", ha="center", va="bottom", fontsize=7, color=INK)
    axes.set_xticks(range(len(skews)), [f"Zipf {skew:g}" for skew in skews])
    axes.set_ylabel("throughput, ideal = 1")


def _value(records: Sequence[Mapping[str, Any]], skew: float, who: str) -> float:
    row = skew_rows(records, THROUGHPUT, f"Zipf {skew}:").get(who)
    return float(row["value"]) if row else 0.0


def _label(who: str) -> str:
    return {IDEAL: "round robin (ideal)"}.get(who, who if who == HASH else f"unskew ({who})")
