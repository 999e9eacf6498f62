"""One picture, before and after: what skew does to a stream under Spark alone, and under unskew."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unskew_lab.report.headline import EXPONENT, FULLEST, HASH, NATIVE, OURS, WAITING, skew_rows
from unskew_lab.report.plots import GREEN, INK, RED, new_figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BATCH = f"{WAITING}: batch, median"
WIDTH = 0.36


def draw_before_after(records: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw batch times of one stream and how full channels are over skews as SVG; return whether there was anything."""
    from matplotlib.patches import Patch

    seconds = {who: row["samples"] for who, row in skew_rows(records, BATCH).items()}
    fullest = _fullest(records)
    if not {NATIVE, OURS} <= set(seconds) or not fullest:
        return False
    figure, axes = new_figure(3.0, columns=2, width=9.0)
    for who, colour in ((NATIVE, RED), (OURS, GREEN)):
        axes[0].plot(range(1, len(seconds[who]) + 1), seconds[who], color=colour, linewidth=1.4)
    axes[0].set_ylim(bottom=0)
    axes[0].set_xlabel(f"batch, {EXPONENT} keys that change")
    axes[0].set_ylabel("seconds per batch")
    _draw_fullest(axes[1], fullest)
    handles = [Patch(color=RED, label="Spark alone"), Patch(color=GREEN, label="unskew")]
    figure.legend(handles=handles, frameon=False, fontsize=9, ncols=2, loc="outside upper left")
    save(figure, path, salt="before and after")
    return True


def _fullest(records: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Mapping[str, Any]]]:
    """Return the rows that say how full channels are, by skew and contender."""
    names = {row["name"] for record in records if record["benchmark"] == "skew" for row in record["rows"]}
    skews = sorted(
        name.partition(":")[0] for name in names if re.fullmatch(rf"Zipf [\d.]+: {re.escape(FULLEST)}", name)
    )
    return {skew: skew_rows(records, f"{skew}: {FULLEST}") for skew in skews}


def _draw_fullest(axes: Axes, fullest: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> None:
    for place, rows in enumerate(fullest.values()):
        for who, colour, side in ((HASH, RED, -0.5), (OURS, GREEN, 0.5)):
            if who in rows:
                value, x = float(rows[who]["value"]), place + side * WIDTH
                axes.bar(x, value, WIDTH * 0.92, color=colour)
                axes.text(x, value, f"{value:.2f}", ha="center", va="bottom", fontsize=8, color=INK)
    axes.set_xticks(range(len(fullest)), list(fullest))
    axes.set_ylabel("fullest channel, least possible = 1")
