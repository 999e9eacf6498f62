"""The gallery has every operator, with an example that runs and a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unskew.jobs.operators import known_operators

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "operators.md"
TEXT = PAGE.read_text()
SECTIONS = {
    re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-"): body
    for heading, body in re.findall(r"^## (.*)\n((?:(?!^## ).*\n)*)", TEXT, re.MULTILINE)
}


@pytest.mark.parametrize("name", [kind.__name__ for kind in known_operators().values()])
def test_an_operator_has_an_example_and_a_picture(name: str) -> None:
    row = re.search(rf"^\| \[`{name}`\]\(#([a-z0-9-]+)\)", TEXT, re.MULTILINE)
    assert row is not None, "a row of the table"
    section = SECTIONS[row[1]]
    assert re.search(rf"^>>> .*\b{name}\(", section, re.MULTILINE), "an example, which runs as a doctest"
    pictures = re.findall(r"!\[.+\]\((.+\.svg)\)", section)
    assert pictures, "a picture"
    assert all((PAGE.parent / picture).is_file() for picture in pictures)
