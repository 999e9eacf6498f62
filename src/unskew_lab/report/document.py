"""An HTML page that needs nothing outside of itself: one column, wide tables scroll, plots are inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from unskew import __version__

escape = html.escape


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, as HTML."""

    title: str
    body: str


@dataclass(frozen=True)
class Document:
    """A page: title and first paragraph in plain text, HTML before the first heading, and sections.

    >>> text = Document("A < B", "Once", [Section("Why", table(["what"], [["x > y"]]))]).render()
    >>> "<h1>A &lt; B</h1>" in text, "<td>x &gt; y</td>" in text, "://" in text
    (True, True, False)
    """

    title: str
    lead: str
    sections: Sequence[Section]
    opening: str = ""

    def render(self) -> str:
        template = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))
        body = "\n".join([self.opening, *(f"<h2>{escape(each.title)}</h2>\n{each.body}" for each in self.sections)])
        foot = f"unskew {__version__}"
        return template.substitute(title=escape(self.title), lead=escape(self.lead), body=body, foot=foot)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.render(), encoding="utf-8")
        return path.resolve()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table of plain texts; columns in `numbers` are flush right, ``yes`` and ``no`` have colours."""
    return raw_table(headings, [[escape(cell) for cell in row] for row in rows], numbers)


def raw_table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """Return a table of cells that are HTML already."""
    styles = ["number" if place in numbers else "" for place in range(len(headings))]
    head = "".join(_cell("th", style, escape(text)) for style, text in zip(styles, headings, strict=True))
    lines = [
        "<tr>"
        + "".join(_cell("td", style or _colour(cell), cell) for style, cell in zip(styles, row, strict=True))
        + "</tr>"
        for row in rows
    ]
    return f'<div class="scroll"><table>\n<tr>{head}</tr>\n' + "\n".join(lines) + "\n</table></div>"


def cards(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return large numbers side by side: number, colour (``red``, ``green`` or nothing), what it is."""
    each = (f'<div><b class="{colour}">{escape(big)}</b>{escape(small)}</div>' for big, colour, small in entries)
    return f'<div class="cards">{"".join(each)}</div>'


def paragraph(text: str, style: str = "") -> str:
    """Return a paragraph of plain text."""
    return f'<p class="{style}">{escape(text)}</p>' if style else f"<p>{escape(text)}</p>"


def picture(path: Path) -> str:
    """Return a PNG file as an image inside the page."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{data}">'


def _cell(tag: str, style: str, content: str) -> str:
    return f'<{tag} class="{style}">{content}</{tag}>' if style else f"<{tag}>{content}</{tag}>"


def _colour(text: str) -> str:
    return text if text in ("yes", "no") else ""
