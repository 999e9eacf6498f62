"""The results as a table, written into a page between two marks; what the page says around it is written by hand."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from pathlib import Path
from xml.etree import ElementTree

BEGIN, END = "<!-- versions: results begin -->", "<!-- versions: results end -->"
HEADINGS = ("Spark", "Python", "passed", "failed", "skipped", "seconds", "when")


@dataclass(frozen=True)
class Result:
    """What one run of the core suite gave."""

    spark: str
    python: str
    passed: int
    failed: int
    skipped: int
    seconds: int
    when: str

    @classmethod
    def read(cls, report: Path, spark: str, python: str) -> Result:
        """Read what pytest has written with ``--junitxml``."""
        suite = ElementTree.parse(report).getroot().find("testsuite")
        assert suite is not None
        tests, failures, errors, skipped = (int(suite.get(name, 0)) for name in COUNTS)
        broken = failures + errors
        seconds, when = round(float(suite.get("time", 0))), suite.get("timestamp", "")[:10]
        return cls(spark, python, tests - broken - skipped, broken, skipped, seconds, when)


COUNTS = ("tests", "failures", "errors", "skipped")


def write_page(page: Path, results: list[Result]) -> None:
    """Put results into a page; rows of other versions of Spark and Python stay."""
    before, begin, rest = page.read_text().partition(BEGIN)
    old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} does not have the lines {BEGIN} and {END}")
    rows = {_version(row): row for row in (_cells(line) for line in old.splitlines()) if row[0][:1].isdigit()}
    rows |= {_version(row): row for row in (tuple(map(str, astuple(result))) for result in results)}
    table = [HEADINGS, ("---",) * len(HEADINGS), *(rows[version] for version in sorted(rows))]
    lines = "\n".join(f"| {' | '.join(row)} |" for row in table)
    page.write_text(f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}")


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.strip("| ").split("|"))


def _version(row: tuple[str, ...]) -> tuple[int, ...]:
    """Return the minor versions of Spark and Python, so that a newer patch takes the place of an older one."""
    return tuple(int(part) for version in row[:2] for part in version.split(".")[:2])
