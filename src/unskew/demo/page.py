"""The page that the race leaves behind: one HTML file with the plots inside."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from unskew import __version__
from unskew.demo.batch import Batch
from unskew.demo.race import NAMES, RACERS, Race, Racer
from unskew.demo.settings import Settings
from unskew.demo.view import comparison, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS: dict[Racer, str] = {"hash": "#c8452f", "unskew": "#2f7d5b"}
GREY = "#b9b4a8"


def write_page(path: Path, race: Race, settings: Settings) -> Path:
    """Write the page to `path`, with nothing outside of it needed to read it, and return the absolute path."""
    hashed, balanced = (race.figures(racer) for racer in RACERS)
    template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
    text = template.substitute(
        speedup=f"{race.speedup:.2f}",
        hash_imbalance=f"{hashed.mean_imbalance:.2f}",
        unskew_imbalance=f"{balanced.mean_imbalance:.2f}",
        moves=balanced.moves,
        same="yes" if race.same_result else "NO",
        counted=counted(hashed),
        comparison=_table_rows(race),
        hot_keys=_hot_keys(race, settings),
        seconds_figure=_svg(_course_figure(race, settings, "seconds", lambda batch: batch.seconds, first=1)),
        imbalance_figure=_svg(_course_figure(race, settings, "fullest channel, mean = 1", lambda b: b.imbalance)),
        keys=f"{settings.keys:,}",
        channels=settings.channels,
        exponent=f"{settings.exponent:g}",
        shift=settings.batches_per_shift,
        cost=settings.cost,
        version=__version__,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path.resolve()


def _course_figure(
    race: Race, settings: Settings, label: str, value: Callable[[Batch], float], first: int = 0
) -> Figure:
    """Draw a value over the batches for both racers, with a dotted line wherever other keys became the hot ones."""
    figure, axes = _figure(height=2.9)
    last = max(map(len, race.batches.values()))
    for start in range(settings.batches_per_shift, last, settings.batches_per_shift):
        axes.axvline(start - 0.5, color=GREY, linestyle=":", linewidth=1)
    for racer in RACERS:
        batches = race.batches[racer][first:] or race.batches[racer]
        numbers = [batch.number for batch in batches]
        axes.plot(numbers, [value(batch) for batch in batches], "o-", color=COLOURS[racer], markersize=3.5)
        axes.plot([], [], color=COLOURS[racer], label=NAMES[racer])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("batch")
    axes.set_ylabel(label)
    axes.legend(frameon=False, ncols=2, loc="lower left", bbox_to_anchor=(0, 1))
    return figure


def _figure(height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, height), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
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


def _table_rows(race: Race) -> str:
    return "\n".join(_row(*map(html.escape, cells)) for cells in comparison(race))


def _hot_keys(race: Race, settings: Settings) -> str:
    """Return table rows with the hottest keys of the last batch before every shift, and who counted them."""
    rows = []
    step = settings.batches_per_shift
    for last in sorted({*range(step - 1, race.common, step), race.common - 1}):
        batches = [race.batches[racer][last] for racer in RACERS]
        names = ", ".join(f"<b>{html.escape(k.name)}</b> {k.rows / batches[0].rows:.0%}" for k in batches[0].hot_keys)
        owners = [", ".join(str(key.channel) for key in batch.hot_keys) for batch in batches]
        rows.append(_row(str(last), names, *owners))
    return "\n".join(rows)


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
