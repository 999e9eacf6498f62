"""Results survive an interruption, and the page says what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.book import ROOT, Book, Code
from chaos.report import BEGIN, END, results, write_page
from chaos.run import Kill, Result

CODE = Code("c0ffee", "beef")


def result(number: int, verdict: str = "exact", **more: object) -> Result:
    kills = [Kill("worker", "work", 1, True), Kill("worker", "count", 2, False), Kill("driver", "commit", 3, True)]
    done = {"kills": kills, "starts": 2, "batches": 20, "rows": 30_000, "seconds": 60.0, "verdict": verdict}
    return Result(7, number, "chain", "local[2,4]", "files", False, "", **(done | more))


def test_a_book_goes_on_where_it_was_and_forgets_rounds_of_other_code(tmp_path: Path) -> None:
    path = tmp_path / "rounds.jsonl"
    first = Book(path, CODE, seed=7)
    assert [first.take(range(9)), first.take(range(9))] == [0, 1]
    first.add(result(1))
    again = Book(path, CODE, seed=7)
    assert again.kills.total() == 3
    assert [again.take(range(3)) for _ in range(3)] == [0, 2, None], "round 0 had not ended"
    other_seed = Book(path, CODE, seed=8)
    assert (other_seed.kills.total(), other_seed.take([1])) == (3, 1)
    other_code = Book(path, Code("c0ffee", "other"), seed=7)
    assert other_code.rounds == []
    other_code.add(result(5, verdict=f"a file is missing: {ROOT}/out"))
    assert len(path.read_text().splitlines()) == 1
    assert other_code.broken[0]["verdict"] == "a file is missing: PROJECT/out"


def test_the_page_has_what_was_done(tmp_path: Path) -> None:
    book = Book(tmp_path / "rounds.jsonl", CODE, seed=7)
    fault = {"fault": "cut chunk", "outcome": "stopped, cured, went on", "message": "CheckpointError: a | b"}
    book.add(result(0))
    book.add(result(1, faults=[fault]))
    book.add(result(4, kills=[], starts=1, batches=0, rows=0))
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nresults of last year\n{END}\n\nAfter\n")
    write_page(page, book)
    text = page.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith("\nAfter\n")
    assert "last year" not in text
    for line in (
        "| verdict | **every round was exact**: 60,000 rows in 40 batches of 3 rounds |",
        "| seed | 7; rounds 0 to 1, 4 |",
        "**This run is too short to prove much.** A release needs 1,000 kills.",
        "| Python worker | 2 | 2 | 0 | 4 |",
        "| driver | 0 | 0 | 2 | 2 |",
        "| all | 2 | 2 | 2 | 6 |",
        "2 of the 4 Python workers were on a core, or waited for one, when they died.",
        "| chain | `local[2,4]` | 3 | 40 | 60,000 | 4 | 0 | 2 | 3 |",
        "| cut chunk | 1 | stopped, cured, went on | `CheckpointError: a / b` |",
    ):
        assert line in text.splitlines(), line


def test_a_round_that_is_not_exact_is_said_first(tmp_path: Path) -> None:
    book = Book(tmp_path / "rounds.jsonl", CODE, seed=7)
    book.add(result(0))
    book.add(result(1, "the chain of 'k1' breaks"))
    text = results(book)
    assert "**1 rounds were not exact**" in text
    assert "every round was exact" not in text
    assert "Round 1 of seed 7 was not exact: the chain of 'k1' breaks" in text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Somebody else's\n")
    with pytest.raises(ValueError, match="does not have the lines"):
        write_page(page, Book(tmp_path / "rounds.jsonl", CODE, seed=7))
    assert page.read_text() == "# Somebody else's\n"
