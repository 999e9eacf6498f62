"""The page: a section for every query, with figures at a glance, one open batch, and the plots."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from bokeh.document import Document
from bokeh.embed import file_html
from bokeh.events import Tap
from bokeh.models import Button, Column, CustomJS, Div, InlineStyleSheet, Row, Spinner, UIElement
from bokeh.resources import INLINE
from jinja2 import Template

from unskew import __version__
from unskew.watch.overview import Overview
from unskew.watch.plots import Plots, of_batch
from unskew.watch.series import Batches, points
from unskew.watch.words import moment, why

HERE = Path(__file__).parent
CARD, DRESS, OPEN, PAGE = (
    (HERE / name).read_text(encoding="utf-8") for name in ("card.css", "dress.js", "open.js", "page.html")
)
OPENABLE = 200  # of the last batches in a page that no server answers for; before them, the worst of every point
TITLE = "unskew watch"


class Section:
    """One query. `show` draws what is new; `open` draws one batch, None the last one from now on."""

    def __init__(self, number: int, name: str) -> None:
        self.id, self.name = f"q{number}", name
        self._seen = Overview.of(())
        self._opened: int | None = None
        self._plots = Plots()
        styled: dict[str, Any] = {"stylesheets": [InlineStyleSheet(css=CARD)]}
        self._head, self._glance, self._story = (Div(sizing_mode="stretch_width", **styled) for _ in range(3))
        self._spinner = Spinner(title="Open batch", low=0, step=1, width=140, **styled)
        self._latest = Button(label="Latest", width=80, **styled)
        picker = Row(self._spinner, self._latest, styles={"align-items": "end"})
        parts: dict[str, tuple[UIElement, ...]] = {"story": (picker, self._story)}
        for plot in self._plots.all:
            plot.heading.stylesheets = styled["stylesheets"]
            parts[plot.name] = (plot.heading, plot.figure)
        options: dict[str, Any] = {"sizing_mode": "stretch_width", "css_classes": ["card"], **styled}
        self.cards = [Column(*each, name=f"{self.id}-{name}", **options) for name, each in parts.items()]
        self._head.name, self._glance.name = f"{self.id}-head", f"{self.id}-glance"
        self._say("Waiting for the first batch ...")
        for card in self.cards:
            card.visible = False

    @property
    def roots(self) -> list[UIElement]:
        return [self._head, self._glance, *self.cards]

    @property
    def figures(self) -> list[Any]:
        return [plot.figure for plot in self._plots.all]

    @property
    def batches(self) -> Batches:
        return self._seen.batches

    def show(self, seen: Overview, problem: str = "") -> None:
        """Draw the query as it is now."""
        batches = seen.batches
        if batches and seen is not self._seen:
            self._seen = seen
            tiles = "".join(
                f"<div><b>{escape(name)}</b><strong>{escape(value)}</strong><small>{escape(made_of)}</small></div>"
                for name, (value, made_of) in seen.glance.items()
            )
            self._glance.text = f'<div class="tiles">{tiles}</div>'
            self._plots.fill(seen)
            self._draw()
        if batches:
            self._say(f"last batch {batches[-1].batch_id}, begun at {moment(batches[-1].time_ms)}", problem)
        elif problem:
            self._say("", problem)

    def open(self, number: float | None) -> None:
        """Open the batch that is nearest to a number."""
        self._opened = None if number is None or not self.batches else self._nearest(number)
        if self.batches:
            self._draw()

    def answer(self) -> None:
        """Let a server answer what people do on the page."""
        self._spinner.on_change("value", lambda _, old, new: self.open(new) if new != self._shown else None)
        self._latest.on_click(lambda: self.open(None))
        for figure in self._plots.timed:
            figure.on_event(Tap, lambda event: self.open(event.x))

    def answer_alone(self) -> None:
        """Let the page answer by itself, from what it carries along."""
        last = self.batches[-OPENABLE:]
        worst = [max(run, key=lambda batch: batch.imbalance) for run in points(self.batches)]
        chosen = {batch.batch_id for batch in (*last, *worst)}
        store = {
            batch.batch_id: [_story(batch), *of_batch(batch, self.batches[: place + 1])]
            for place, batch in enumerate(self.batches)
            if batch.batch_id in chosen
        }
        plots = self._plots
        args = {
            "store": json.dumps(store),
            "story": self._story,
            "sources": [plots.loads, plots.levels, plots.states],
            "spans": plots.opened,
            "spinner": self._spinner,
            "last": self.batches[-1].batch_id if self.batches else 0,
        }
        self._spinner.js_on_change("value", CustomJS(args=args, code=f"const wanted = spinner.value\n{OPEN}"))
        self._latest.js_on_click(CustomJS(args=args, code=f"const wanted = last\n{OPEN}"))
        for figure in plots.timed:
            figure.js_on_event(Tap, CustomJS(args=args, code=f"const wanted = cb_obj.x\n{OPEN}"))

    @property
    def _shown(self) -> int | None:
        """The batch that is open."""
        if not self.batches:
            return None
        return self.batches[-1].batch_id if self._opened is None else self._opened

    def _draw(self) -> None:
        place = self._place(self._shown or 0)
        batch = self.batches[place]
        self._story.text = _story(batch)
        self._plots.open(batch, self.batches[: place + 1])
        self._spinner.high, self._spinner.value = self.batches[-1].batch_id, batch.batch_id
        for card in self.cards:
            card.visible = bool(card.children[-1].visible)

    def _nearest(self, number: float) -> int:
        place = self._place(number)
        around = self.batches[max(place - 1, 0) : place + 1]
        return min(around, key=lambda batch: abs(batch.batch_id - number)).batch_id

    def _place(self, number: float) -> int:
        return min(bisect_left(self.batches, number, key=lambda batch: batch.batch_id), len(self.batches) - 1)

    def _say(self, state: str, problem: str = "") -> None:
        wrong = f'<p class="problem">{escape(problem)}</p>' if problem else ""
        short = "/".join(self.name.rstrip("/").split("/")[-2:])
        self._head.text = f'<h2 title="{escape(self.name)}">{escape(short)}</h2><p>{escape(state)}</p>{wrong}'


def dress(document: Document, sections: Sequence[Section]) -> None:
    """Fill a document with sections, in the template of the page, in the colours that the reader prefers."""
    with document.models.freeze():
        for root in (root for section in sections for root in section.roots):
            document.add_root(root)
    document.title = TITLE
    document.template = Template(PAGE)
    document.template_variables.update(_variables(sections))
    figures = [figure for section in sections for figure in section.figures]
    document.js_on_event("document_ready", CustomJS(args={"figures": figures}, code=DRESS))


def as_html(queries: dict[str, Batches]) -> str:
    """Return the page as one file that needs neither a server nor a network."""
    document, sections = Document(), [Section(number, name) for number, name in enumerate(queries)]
    for section, batches in zip(sections, queries.values(), strict=True):
        section.show(Overview.of(batches))
        if batches:
            section.answer_alone()
    dress(document, sections)
    variables = _variables(sections)
    return str(file_html(document, INLINE, TITLE, template=Template(PAGE), template_variables=variables))


def _variables(sections: Sequence[Section]) -> dict[str, Any]:
    return {
        "queries": [{"roots": [root.name for root in section.roots]} for section in sections],
        "version": __version__,
    }


def _story(batch: Any) -> str:
    return f"<h3>Batch {batch.batch_id}</h3>" + "".join(f"<p>{escape(text)}</p>" for text in why(batch))
