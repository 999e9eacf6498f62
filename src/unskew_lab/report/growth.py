"""How a batch of an aggregate grows: with its rows, and with the keys held."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew_lab.report.plots import GREEN, RED, new_figure, save

AXES = {"growth with rows": "rows of a batch", "growth with keys held": "keys held, 10,000 rows a batch"}
COLOURS = {"native": (RED, "Spark alone"), "unskew": (GREEN, "unskew")}


def draw_growth(records: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw seconds of a batch over both sizes as SVG; return whether they were measured."""
    rows = [row for record in records if record["benchmark"] == "aggregates" for row in record["rows"]]
    if not any(row["name"].startswith(tuple(AXES)) for row in rows):
        return False
    figure, axes = new_figure(3.0, columns=2, width=9.0)
    for each, (start, label) in zip(axes, AXES.items(), strict=True):
        for who, (colour, name) in COLOURS.items():
            mine = [row for row in rows if row["name"].startswith(start) and row["contender"] == who]
            points = sorted((_size(row["name"]), float(row["value"])) for row in mine)
            each.plot(*zip(*points, strict=True), color=colour, linewidth=1.4, marker="o", markersize=3, label=name)
        each.set_xscale("log")
        each.set_yscale("log")
        each.set_xlabel(label)
        each.set_ylabel("seconds per batch")
    axes[0].legend(frameon=False, fontsize=9)
    save(figure, path, salt="growth")
    return True


def _size(name: str) -> int:
    """Return the size that a row's name ends with.

    >>> _size("growth with rows, 10,000 rows")
    10000
    """
    found = re.search(r"([\d,]+) (?:rows|keys held)$", name)
    return int(found[1].replace(",", "")) if found else 0
