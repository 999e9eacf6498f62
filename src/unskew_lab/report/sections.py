"""Benchmarks in pages that people write: each between two marks, with its table, notes and picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew_lab.report.benchmarks import where_it_ran
from unskew_lab.report.markdown import markdown_table
from unskew_lab.report.plots import GREEN, GREY, RED, new_figure, save

BEGIN, END = "<!-- unskew bench {} -->", "<!-- end -->"
DRAWN = (  # series of the soak that stand for all of them
    "driver: memory",
    "JVM: heap after a collection",
    "workers: memory",
    "checkpoint, unskew's: files",
    "local copies: MB",
    "batch time, function",
)


def has_sections(text: str) -> bool:
    """Tell whether a page has a place for a benchmark."""
    return BEGIN.partition("{}")[0] in text


def update_sections(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Write what was measured between the marks of its benchmark, and the picture beside the page."""
    text = path.read_text(encoding="utf-8")
    for record in records:
        begin = BEGIN.format(record["benchmark"])
        if begin in text and "table" in record:
            block = "\n".join([begin, "", *_section(record, path), END])
            before, _, after = text.partition(begin)
            text = before + block + after.partition(END)[2]
    path.write_text(text, encoding="utf-8")
    return path.resolve()


def _section(record: Mapping[str, Any], page: Path) -> list[str]:
    table = record["table"]
    lines = [*markdown_table(table["headings"], table["rows"], table["numbers"]), ""]
    picture = page.with_name(f"{page.stem}-{record['benchmark']}.svg")
    if draw_soak(record["rows"], picture):
        lines += [f"![Each series over the minutes of the run; what is judged is green]({picture.name})", ""]
    for note in record["notes"]:
        lines += [note, ""]
    return [*lines, f"{where_it_ran([record])} Commit {record['commit']}.", ""]


def draw_soak(rows: Sequence[Mapping[str, Any]], path: Path) -> bool:
    """Draw the series of a soak over time as SVG; return whether there were any."""
    by_name = {row["name"]: row for row in rows}
    if not {"minutes run", *DRAWN} <= set(by_name):
        return False
    minutes, skipped = (by_name[name]["value"] for name in ("minutes run", "minutes not judged"))
    figure, axes = new_figure(4.6, columns=3, width=9.0, rows=2)
    for each, name in zip(axes, DRAWN, strict=True):
        values = by_name[name]["samples"]
        at = [minutes * (place + 1) / len(values) for place in range(len(values))]
        colour = RED if by_name[name]["met"] is False else GREEN
        each.plot(at, values, color=GREY, linewidth=1.0)
        each.plot(*zip(*[(x, y) for x, y in zip(at, values, strict=True) if x >= skipped], strict=True), color=colour)
        each.set_ylim(0, 1.3 * max(values) or 1)
        each.set_title(f"{name}{_unit(by_name[name])}", fontsize=9)
        each.set_xlabel("minutes", fontsize=8)
    save(figure, path, salt="soak")
    return True


def _unit(row: Mapping[str, Any]) -> str:
    unit = row["unit"].partition("/")[0]
    return f", {unit}" if unit and unit not in row["name"] else ""
