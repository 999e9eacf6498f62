"""Three numbers that open the README, taken from the benchmarks and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unskew.errors import ArgumentError

MARKS = ("<!-- from docs/benchmarks.md -->", "<!-- end -->")
NATIVE, OURS, HASH = "native", "unskew", "Spark's hash"
WAITING, EXPONENT = "rows that wait", "Zipf 1.0"
FASTER = "native over unskew"
FULLEST = "fullest channel over max(mean, heaviest key)"


@dataclass(frozen=True)
class Number:
    """A number with the words that follow it: ``"1.9x"``, ``"the rows per second of ..."``."""

    value: str
    meaning: str


def sentence(number: Number) -> str:
    """Return a number as one line of Markdown.

    Examples
    --------
    >>> sentence(Number("1.9x", "as fast"))
    '**1.9x** as fast'
    """
    return f"**{number.value}** {number.meaning}"


def skew_rows(records: Sequence[Mapping[str, Any]], name: str) -> dict[str, Mapping[str, Any]]:
    """Return the rows of one measurement of ``unskew bench skew`` by contender."""
    rows = [row for each in records if each["benchmark"] == "skew" for row in each["rows"]]
    return {row["contender"]: row for row in rows if row["name"] == name}


def headline_numbers(records: Sequence[Mapping[str, Any]]) -> list[Number]:
    """Return as many of the three numbers as the records have."""
    return [*_skew(records), *_drop_in(records)]


def _skew(records: Sequence[Mapping[str, Any]]) -> Iterator[Number]:
    faster, fullest = skew_rows(records, f"{WAITING}: {FASTER}"), skew_rows(records, f"{EXPONENT}: {FULLEST}")
    if OURS in faster:
        yield Number(
            f"{faster[OURS]['value']:.2f}x",
            "as fast as Spark's own operator, on ten busy channels with Zipf 1.0 keys that change",
        )
    if {OURS, HASH} <= set(fullest):
        yield Number(
            f"{fullest[OURS]['value']:.2f}",
            "times the least load that the fullest channel can have, in the worst batch; "
            f"{fullest[HASH]['value']:.2f} times under Spark's hash",
        )


def _drop_in(records: Sequence[Mapping[str, Any]]) -> Iterator[Number]:
    for record in records:
        for row in record["rows"]:
            if record["benchmark"] == "state" and row["name"].startswith("drop-in") and row["name"].endswith(FASTER):
                yield Number(
                    f"{row['value']:.1f}x", "as fast as Spark's applyInPandasWithState, with the same function"
                )
                return


def update(path: Path, records: Sequence[Mapping[str, Any]]) -> Path:
    """Put the numbers, and the picture beside ``docs/benchmarks.md``, between the marks of a page; return its path.

    Nothing is changed if the records lack one of the numbers.
    """
    text, numbers = path.read_text(encoding="utf-8"), headline_numbers(records)
    if MARKS[1] not in text:
        raise ArgumentError("a page needs both marks", where=str(path), hint=" and ".join(MARKS))
    if len(numbers) == 3:
        lines = ["![One stream before and after](docs/benchmarks-skew.svg)", "", *(f"- {sentence(n)}" for n in numbers)]
        block = "\n".join([MARKS[0], "", *lines, "", MARKS[1]])
        text = re.sub(f"{re.escape(MARKS[0])}.*?{re.escape(MARKS[1])}", lambda _: block, text, flags=re.DOTALL)
        path.write_text(text, encoding="utf-8")
    return path.resolve()
