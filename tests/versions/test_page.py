"""The table of versions says what the runs gave, and keeps the rows of runs that were not repeated."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from unskew.versions import NEWEST, OLDEST
from versions.environments import MATRIX, REQUIREMENTS, ROOT
from versions.page import BEGIN, END, Result, write_page
from versions.suite import CORE

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="1"
failures="2" skipped="3" tests="20" time="61.7" timestamp="2026-11-18T20:00:00.000000+00:00" hostname="here" />
</testsuites>"""


@pytest.fixture
def result(tmp_path: Path) -> Result:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    return Result.read(report, "4.0.5", "3.11.7")


def test_a_report_is_read(result: Result) -> None:
    assert dataclasses.astuple(result) == ("4.0.5", "3.11.7", 14, 3, 3, 62, "2026-11-18")


def test_a_run_replaces_its_own_row_alone(result: Result, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\n\n{END}\n\nAfter\n")
    write_page(page, [dataclasses.replace(result, python="3.9.1"), result])
    write_page(page, [dataclasses.replace(result, spark="4.0.6", failed=0)])
    assert page.read_text() == (
        f"# Before\n\n{BEGIN}\n\n| Spark | Python | passed | failed | skipped | seconds | when |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| 4.0.5 | 3.9.1 | 14 | 3 | 3 | 62 | 2026-11-18 |\n"
        f"| 4.0.6 | 3.11.7 | 14 | 0 | 3 | 62 | 2026-11-18 |\n\n{END}\n\nAfter\n"
    )


def test_a_page_without_marks_is_left_alone(result: Result, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Somebody else's\n")
    with pytest.raises(ValueError, match="does not have the lines"):
        write_page(page, [result])
    assert page.read_text() == "# Somebody else's\n"


def test_the_matrix_has_every_version_that_is_allowed() -> None:
    allowed = {f"{OLDEST[0]}.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)}
    assert {version.spark for version in MATRIX} == allowed
    for version in MATRIX:
        locked = re.findall(r"^pyspark==(\S+)", version.locks[-1].read_text(), flags=re.MULTILINE)
        assert [name.startswith(f"{version.spark}.") for name in locked] == [True]


def test_every_locked_version_has_a_hash_and_no_address() -> None:
    for lock in sorted((REQUIREMENTS / "versions").iterdir()):
        entries = re.split(r"^(?=\S)", lock.read_text(), flags=re.MULTILINE)[1:]
        assert entries
        assert all("--hash=sha256:" in entry and "://" not in entry for entry in entries), lock


def test_the_core_suite_exists() -> None:
    assert [path for path in CORE if not (ROOT / path).exists()] == []
