"""The README's opening says what the page of the benchmarks says, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from unskew_lab.report.headline import MARKS, is_whole

ROOT = Path(__file__).parents[2]


def opening():
    text = (ROOT / "README.md").read_text()
    return text[text.index(MARKS[0]) + len(MARKS[0]) : text.index(MARKS[1])]


def in_short():
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    found = re.search(r"^## In short\n(.*?)(?=^!\[|^## )", page, flags=re.MULTILINE | re.DOTALL)
    return found[1] if found else ""


def lines(text):
    return [line for line in text.splitlines() if line.startswith("|")]


def test_the_numbers_of_the_readme_are_those_of_the_page():
    assert set(lines(opening())) <= set(lines(in_short()))
    if is_whole(lines(in_short())):
        assert lines(opening()) == lines(in_short())


def test_the_readme_opens_with_what_was_measured():
    before = (ROOT / "README.md").read_text().partition(MARKS[0])[0]
    assert "##" not in before
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", opening())
    assert all((ROOT / picture).exists() for picture in pictures)
    assert len(pictures) == (1 if lines(opening()) else 0)
