"""Plots that stand inside a page: the colours, and SVG with text as text."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RED, GREEN, GREY, BLUE, INK = "#c8452f", "#2f7d5b", "#b9b4a8", "#3b6ea5", "#23211d"


def new_figure(height: float, columns: int = 1, width: float = 7.2, rows: int = 1) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes side by side, row by row, without frames."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    axes = [figure.add_subplot(rows, columns, place + 1) for place in range(rows * columns)]
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
        each.set_facecolor("none")
    return figure, axes


def save(figure: Figure, path: Path, salt: str) -> None:
    """Write the figure as an SVG file on white."""
    figure.set_facecolor("white")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(svg(figure, salt, transparent=False), encoding="utf-8")


def svg(figure: Figure, salt: str = "unskew", transparent: bool = True) -> str:
    """Return the figure as SVG to stand inside HTML: without the XML header, the same for the same figure.

    `salt` makes the names of its parts differ from those of other figures on the page.
    """
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": salt}):
        figure.savefig(buffer, format="svg", transparent=transparent, metadata={"Date": None})
    text = buffer.getvalue()
    return re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
