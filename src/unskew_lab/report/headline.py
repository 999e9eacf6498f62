"""The table that opens the README, taken from the benchmarks and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.errors import ArgumentError

MARKS = ("<!-- from docs/benchmarks.md -->", "<!-- end -->")
NATIVE, OURS, HASH = "native", "unskew", "Spark's hash"
WAITING, EXPONENT = "rows that wait", "Zipf 1.0"
FASTER, MEDIAN = "native over unskew", "batch, median"
FULLEST = "fullest channel over max(mean, heaviest key)"


@dataclass(frozen=True)
class Compared:
    """A batch that is measured beside Spark's own operator."""

    benchmark: str
    measurement: str  # how its name begins there
    words: str  # what the README says of it


COMPARED = (
    Compared("skew", WAITING, "a function per key on ten busy channels, Zipf 1.0 keys, the hot ones change"),
    Compared(
        "state", "drop-in, 100,000 rows", "`applyInPandasWithState` with the same function, 100,000 rows, 2 channels"
    ),
    Compared("aggregates", "count and sum, 500,000 rows, 2 partitions", "count and sum, 500,000 rows of 46,000 keys"),
)

Record = Mapping[str, Any]


def skew_rows(records: Sequence[Record], name: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows of one measurement of ``unskew bench skew`` by contender."""
    return {row["contender"]: row for row in _rows(records, "skew") if row["name"] == name}


def headline(records: Sequence[Record]) -> list[str]:
    """Return the lines of a table in Markdown, as far as the records go; nothing without any."""
    lines = [line for each in COMPARED for line in _compared(records, each)]
    fullest = skew_rows(records, f"{EXPONENT}: {FULLEST}")
    if {OURS, HASH} <= set(fullest):
        theirs, ours = (fullest[who]["value"] for who in (HASH, OURS))
        words = "fullest channel, the least possible = 1, worst batch, Zipf 1.0 keys that change"
        lines.append(f"| {words} | {theirs:.2f} | {ours:.2f} | |")
    if not lines:
        return []
    return ["| median batch | Spark alone | unskew | |", "| --- | ---: | ---: | ---: |", *lines]


def is_whole(lines: Sequence[str]) -> bool:
    """Tell whether a headline lacks nothing."""
    return len(lines) == len(COMPARED) + 3


def _compared(records: Sequence[Record], wanted: Compared) -> list[str]:
    """Return one line, or none if it was not measured."""
    rows = [row for row in _rows(records, wanted.benchmark) if row["name"].startswith(wanted.measurement)]
    ratio = [row["value"] for row in rows if row["name"].endswith(FASTER)]
    seconds = {row["contender"]: row["value"] for row in rows if row["name"].endswith(MEDIAN)}
    if not ratio or not {NATIVE, OURS} <= set(seconds):
        return []
    return [f"| {wanted.words} | {seconds[NATIVE]:.2f} s | {seconds[OURS]:.2f} s | **{ratio[0]:.2f}x** |"]


def _rows(records: Sequence[Record], benchmark: str) -> list[Mapping[str, Any]]:
    return [row for each in records if each["benchmark"] == benchmark for row in each["rows"]]


def update(path: Path, records: Sequence[Record]) -> Path:
    """Put the table, and the picture beside ``docs/benchmarks.md``, between the marks of a page; return its path.

    Nothing is changed if the records lack a line.
    """
    text, lines = path.read_text(encoding="utf-8"), headline(records)
    if MARKS[1] not in text:
        raise ArgumentError("a page needs both marks", where=str(path), hint=" and ".join(MARKS))
    if is_whole(lines):
        block = "\n".join(
            [MARKS[0], "", "![One stream before and after](docs/benchmarks-skew.svg)", "", *lines, "", MARKS[1]]
        )
        text = re.sub(f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}", lambda _: block, text, flags=re.DOTALL)
        path.write_text(text, encoding="utf-8")
    return path.resolve()
