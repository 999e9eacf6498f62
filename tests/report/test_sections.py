from __future__ import annotations

from unskew_lab.report import write_benchmarks
from unskew_lab.report.sections import DRAWN

TABLE = {"headings": ["case", "seconds"], "numbers": [1], "rows": [["rows of 1 MB", "2.5"]]}
REST = "<!-- end -->\n\nAfter.\n<!-- unskew bench soak -->\n<!-- end -->\n"
PAGE = f"# Load\n\nBefore.\n\n<!-- unskew bench load -->\nold\n{REST}"


def record(name, rows=(), **more):
    machine = {"cores": 2, "cpu": "a cpu", "python": "3.11"}
    told = {"commit": "abc", "notes": ["A note."], "quick": False, "began": "2026-01-02"}
    return {"benchmark": name, "machine": machine, "rows": list(rows), **told, **more}


def test_a_benchmark_stands_between_its_marks_and_the_rest_stays(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    write_benchmarks([record("load", table=TABLE)], page)
    text = page.read_text()
    assert text.startswith("# Load\n\nBefore.\n\n<!-- unskew bench load -->\n\n| case | seconds |\n| --- | ---: |\n")
    assert "| rows of 1 MB | 2.5 |" in text
    assert "A note." in text
    assert "old" not in text
    assert text.endswith(REST)


def test_writing_twice_changes_nothing(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    write_benchmarks([record("load", table=TABLE)], page)
    once = page.read_text()
    write_benchmarks([record("load", table=TABLE)], page)
    assert page.read_text() == once


def test_a_soak_is_drawn(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    told = [{"name": name, "value": 3.0, "unit": ""} for name in ("minutes run", "minutes not judged")]
    told[1]["value"] = 1.0
    series = [{"name": name, "unit": "MB/day", "met": True, "samples": [1.0, 2.0, 2.0, 2.0]} for name in DRAWN]
    write_benchmarks([record("soak", [*told, *series], table=TABLE)], page)
    assert "](page-soak.svg)" in page.read_text()
    picture = (tmp_path / "page-soak.svg").read_text()
    assert all(name in picture for name in DRAWN[:1])
