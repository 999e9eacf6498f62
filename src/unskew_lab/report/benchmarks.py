"""Benchmarks as a page: HTML with plots, or the Markdown page of the documentation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew_lab.report.document import Document, Section, paragraph, table
from unskew_lab.report.plots import svg

Record = Mapping[str, Any]

HEADINGS = ("what", "contender", "value", "spread", "ratio", "target", "met")
NUMBERS = (2, 3, 4, 5)


def write_benchmarks(records: Sequence[Record], path: Path) -> Path:
    """Write a page on the records to `path`, by its ending, and return the absolute path.

    ``.html``: plots inside. ``.md``: the page of the documentation with its picture beside it; a Markdown file that
    has the two marks of `unskew_lab.report.headline` only gets what stands between them, and one that has marks of
    `unskew_lab.report.sections` gets the benchmarks that they name.
    """
    from unskew_lab.report.headline import MARKS, update
    from unskew_lab.report.markdown import write_markdown
    from unskew_lab.report.sections import has_sections, update_sections

    if path.suffix != ".md":
        return document(records).write(path)
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if MARKS[0] in text:
        return update(path, records)
    if has_sections(text):
        return update_sections(path, records)
    return write_markdown(records, path)


def document(records: Sequence[Record]) -> Document:
    """Return the HTML page."""
    return Document("How fast unskew is", where_it_ran(records), sections(records))


def sections(records: Iterable[Record]) -> list[Section]:
    """Return one section per benchmark: what it is, plot, table, notes."""
    return [Section(record["benchmark"], _body(record)) for record in records]


def _body(record: Record) -> str:
    from unskew_lab.report.bars import draw, panels

    parts = [paragraph(about(record), "soft")]
    parts += [paragraph(note) for note in record["notes"]]
    if record["rows"]:
        parts.append(svg(draw(panels(record["rows"])), salt=record["benchmark"]))
        parts.append(
            paragraph("Green reaches its target, the black line, and red misses it. Thin lines are spread.", "soft")
        )
        parts.append(table(HEADINGS, map(cells, record["rows"]), NUMBERS))
    return "\n".join(parts)


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row as texts, in the order of `HEADINGS`.

    >>> row = {"name": "hash", "contender": "unskew", "value": 1234.5, "unit": "M/s", "ratio": 2.0, "spread": 0.25}
    >>> cells({**row, "target": 1000.0, "met": True})
    ['hash', 'unskew', '1,234 M/s', '0.25', '2', '1,000', 'yes']
    """
    verdict = {True: "yes", False: "no", None: ""}[row["met"]]
    others = [number(row[name], 3) for name in ("spread", "ratio")]
    return [row["name"], row["contender"], value(row), *others, number(row["target"]), verdict]


def value(row: Mapping[str, Any]) -> str:
    """Return a row's value with its unit, and with its 95 % interval if it has one.

    >>> value({"value": 2.08, "unit": "x", "interval": [1.953, 2.2]})
    '2.08 x (1.95 to 2.2)'
    """
    low, high = (number(end, 3) for end in row.get("interval") or (None, None))
    return f"{number(row['value'])} {row['unit']}".strip() + (f" ({low} to {high})" if low else "")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many digits that matter, and nothing for None."""
    return "" if value is None else f"{value:,.{digits}g}"


def about(record: Record) -> str:
    """Return one paragraph on how a benchmark was run."""
    took = "" if record["took_seconds"] is None else f", {record['took_seconds']:,.0f} s"
    what = record["summary"][:1].upper() + record["summary"][1:]
    return f"{what}. {command(record)}, commit {record['commit']}{took}.".lstrip(". ")


def command(record: Record) -> str:
    """Return the command that measures the same again."""
    return f"unskew bench {record['benchmark']}{' --quick' if record['quick'] else ''}"


def where_it_ran(records: Sequence[Record]) -> str:
    """Return machine and versions in a sentence or two."""
    if not records:
        return "Nothing has been measured."
    machine = records[0]["machine"]
    memory = machine.get("memory_bytes")
    gigabytes = f", {memory / 2**30:.0f} GiB" if memory else ""
    versions = ", ".join(f"{name} {version}" for name, version in machine.get("packages", {}).items())
    when = max((each["began"] or "" for each in records), default="")[:10]
    busy = [each["benchmark"] for each in records if (each.get("load_average") or 0) > machine["cores"]]
    warning = f" The machine was busy with other things at the start of {', '.join(busy)}." if busy else ""
    return (
        f"{machine['cores']} cores ({machine.get('cpu', 'unknown')}){gigabytes}, {machine.get('system', '')}, "
        f"Python {machine.get('python', '')}, {versions}{'; ' + when if when else ''}.{warning}"
    )
