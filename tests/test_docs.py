"""The examples in the documentation run."""

import doctest
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parent.parent / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_in_the_docs(page: Path) -> None:
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failures, _ = doctest.testfile(str(page), module_relative=False, optionflags=flags)
    assert failures == 0


def test_links_between_the_pages_lead_somewhere() -> None:
    import re

    broken = [
        (page.name, target)
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert broken == []
