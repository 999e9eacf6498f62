"""The page of the documentation that says what was measured: docs/benchmarks.md, written by code only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew_lab.report.benchmarks import HEADINGS, NUMBERS, Record, cells, command, number, where_it_ran
from unskew_lab.report.growth import draw_growth
from unskew_lab.report.headline import headline
from unskew_lab.report.picture import draw_before_after

MOST_LISTED = 3  # with more contenders for one measurement, they get a line each and the measurements a column each

DRAWINGS = {"skew": draw_before_after, "growth": draw_growth}  # who draws the pictures of the page

INTRODUCTION = """\
# Benchmarks

Written by `make bench`, not by hand. [How it is measured](contributing/measure.md): contenders take turns in one run,
values are medians, *spread* is the interquartile range of the samples, a *ratio* is to what the row is compared with.
Numbers in brackets are a 95 % interval. Where a row waits instead of computing, as in `skew`, a few cores play many;
that shows balance, not speed.
"""


def write_markdown(records: Sequence[Record], path: Path) -> Path:
    """Write the page, and beside it the pictures of what was measured; return the absolute path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawings = {path.with_name(f"{path.stem}-{name}.svg"): draw for name, draw in DRAWINGS.items()}
    drawn = {name.stem.rpartition("-")[2]: name.name for name, draw in drawings.items() if draw(records, name)}
    path.write_text(markdown(records, drawn), encoding="utf-8")
    return path.resolve()


def markdown(records: Sequence[Record], pictures: Mapping[str, str] | None = None) -> str:
    """Return the page's text; `pictures` are those of `DRAWINGS` that there are, by name."""
    found = pictures or {}
    parts = [INTRODUCTION, where_it_ran(records), ""]
    table = headline(records)
    if table:
        parts += ["## In short", "", *table, ""]
    if "skew" in found:
        parts += [f"![Batch times and the fullest channel, before and after]({found['skew']})", ""]
    parts += ["## What was measured", "", *_overview(records), ""]
    for record in records:
        parts += _section(record)
        if record["benchmark"] == "aggregates" and "growth" in found:
            parts += [f"![Seconds per batch over its rows and over the keys held]({found['growth']})", ""]
    return "\n".join(parts).rstrip() + "\n"


def _overview(records: Iterable[Record]) -> list[str]:
    rows = []
    for record in records:
        judged = [row["met"] for row in record["rows"] if row["met"] is not None]
        met = f"{sum(judged)} of {len(judged)}" if judged else ""
        took = "" if record["took_seconds"] is None else f"{record['took_seconds']:,.0f} s"
        name = record["benchmark"]
        rows.append([f"[{name}](#{name})", record["summary"], met, took, record["commit"]])
    return markdown_table(["benchmark", "", "targets met", "took", "commit"], rows, numbers=(3,))


def _section(record: Record) -> list[str]:
    parts = [f"## {record['benchmark']}", "", "```sh", command(record), "```", ""]
    grouped: dict[str, list[Any]] = {}
    for row in record["rows"]:
        grouped.setdefault(row["name"], []).append(row)
    wide = {name: rows for name, rows in grouped.items() if len(rows) > MOST_LISTED and ": " in name}
    for where in dict.fromkeys(name.partition(": ")[0] for name in wide):
        parts += [f"**{where}**", "", *_across(where, wide), ""]
    listed = [row for row in record["rows"] if row["name"] not in wide]
    if listed:
        parts += [*markdown_table(HEADINGS, [cells(row) for row in listed], NUMBERS), ""]
    for note in record["notes"]:
        parts += [note, ""]
    return parts


def _across(where: str, wide: dict[str, list[Any]]) -> list[str]:
    names = [name for name in wide if name.partition(": ")[0] == where]
    contenders = dict.fromkeys(row["contender"] for name in names for row in wide[name])
    found = {(name, row["contender"]): row for name in names for row in wide[name]}
    headings = ["", *(_column(name, wide[name]) for name in names)]
    lines = [[who, *(_measured(found.get((name, who))) for name in names)] for who in contenders]
    return markdown_table(headings, lines, numbers=range(1, len(headings)))


def _column(name: str, rows: list[Any]) -> str:
    unit = rows[0]["unit"]
    return name.partition(": ")[2] + (f", {unit}" if unit else "")


def _measured(row: Any) -> str:
    if row is None:
        return ""
    spread = f" ± {number(row['spread'] / 2, 2)}" if row["spread"] else ""
    verdict = {True: f" (met: {number(row['target'])})", False: f" (**missed**: {number(row['target'])})", None: ""}
    return f"{number(row['value'], 3)}{spread}{verdict[row['met']]}"


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = ()) -> list[str]:
    """Return the lines of a table; columns with numbers are aligned to the right."""
    right = set(numbers)
    rule = ["---:" if place in right else "---" for place in range(len(headings))]
    return [_line(each) for each in (headings, rule, *rows)]


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"
