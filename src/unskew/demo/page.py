"""The page that the demonstration leaves behind: one HTML file with the plots inside."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from unskew import __version__
from unskew.demo.batch import Batch, Summary
from unskew.demo.settings import Settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RED, GREEN, GREY = "#c8452f", "#2f7d5b", "#b9b4a8"


def write_page(path: Path, batches: Sequence[Batch], settings: Settings) -> Path:
    """Write the page to `path`, with nothing outside of it needed to read it, and return the absolute path."""
    summary = Summary.of(batches)
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    text = template.substitute(
        times=f"{1 + summary.mean_imbalance:.2f}",
        worst=f"{1 + summary.worst_imbalance:.2f}",
        saved=f"{summary.share_saved:.0%}",
        seconds=f"{summary.seconds:.1f}",
        balanced=f"{summary.balanced_seconds:.1f}",
        batches=summary.batches,
        rows=f"{summary.rows:,}",
        keys=f"{settings.keys:,}",
        channels=settings.channels,
        exponent=f"{settings.exponent:g}",
        shift=settings.batches_per_shift,
        cost=f"{settings.microseconds_per_row:g}",
        loads=_svg(_loads_figure(batches)),
        times_figure=_svg(_times_figure(batches)),
        hot_keys=_hot_keys(batches, settings),
        version=__version__,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path.resolve()


def _loads_figure(batches: Sequence[Batch]) -> Figure:
    """One small panel of bars per batch would be too much: a map of batches and channels, redder is fuller."""
    from matplotlib.colors import LinearSegmentedColormap

    channels = len(batches[0].channel_rows)
    relative = [[rows * channels / max(batch.rows, 1) for rows in batch.channel_rows] for batch in batches]
    figure, axes = _figure(height=0.34 * channels + 1.1)
    colours = LinearSegmentedColormap.from_list("load", ["#e9efe9", "#f6efe0", "#eeb48c", RED])
    columns = [list(column) for column in zip(*relative, strict=True)]
    image = axes.imshow(columns, aspect="auto", cmap=colours, vmin=0.4, vmax=max(2.0, *map(max, relative)))
    for number, row in enumerate(relative):
        fullest = row.index(max(row))
        axes.text(number, fullest, f"{row[fullest]:.1f}", ha="center", va="center", fontsize=8, color="white")
    axes.set_xticks(range(len(batches)), [str(batch.number) for batch in batches])
    axes.set_yticks(range(channels))
    axes.set_xlabel("batch")
    axes.set_ylabel("channel")
    axes.tick_params(length=0)
    bar = figure.colorbar(image, ax=axes, pad=0.015, fraction=0.03)
    bar.set_label("rows, mean = 1")
    bar.outline.set_visible(False)
    return figure


def _times_figure(batches: Sequence[Batch]) -> Figure:
    counted = batches[1:] or batches
    numbers = [batch.number for batch in counted]
    figure, axes = _figure(height=2.7)
    axes.bar(
        numbers, [batch.seconds for batch in counted], color=RED, width=0.75, label="as measured, under Spark's hash"
    )
    axes.bar(
        numbers, [batch.balanced_seconds for batch in counted], color=GREEN, width=0.75, label="if it were balanced"
    )
    axes.set_xticks(numbers)
    axes.set_xlabel("batch")
    axes.set_ylabel("seconds")
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _figure(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[:].set_visible(False)
    axes.set_facecolor("none")
    return figure, axes


def _svg(figure: Figure) -> str:
    """Return the figure as SVG to stand inside HTML: without the XML header, with text as text."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "unskew"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _hot_keys(batches: Sequence[Batch], settings: Settings) -> str:
    """Return table rows with the hottest keys of the first batch after every shift."""
    rows = []
    for batch in batches[:: settings.batches_per_shift]:
        names = ", ".join(
            f"<b>{html.escape(key.name)}</b> {key.rows / batch.rows:.0%} on {key.channel}" for key in batch.hot_keys[:3]
        )
        cells = (batch.number, names, batch.fullest, f"{1 + batch.imbalance:.2f}")
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join(rows)
