"""The judge condemns whatever is lost, doubled, old, out of order or made up, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from chaos import judge
from chaos.judge import Broken

TRUTH = Counter({"a": 5, "b": 2, None: 1})


def link(key: Any, rows: int, old: int | None, new: int | None, disorder: int = 0, **more: Any) -> dict[str, Any]:
    return {"key": key, "rows": rows, "old_secret": old, "secret": new, "disorder": disorder, **more}


def chained() -> list[list[dict[str, Any]]]:
    return [
        [link("a", 2, None, 11), link("b", 1, None, 21)],
        [link("a", 3, 11, 12), link(None, 1, None, 31)],
        [link("a", 5, 12, 13), link("b", 2, 21, 22)],
    ]


def test_an_unbroken_chain_passes() -> None:
    judge.check_chain(chained(), TRUTH)


WRONGS = {
    "a row was lost": lambda batches: batches[2][0].update(rows=4),
    "a row was applied twice": lambda batches: batches[2][0].update(rows=6),
    "a row was applied twice and another one lost": lambda batches: batches[1][0].update(disorder=1),
    "output of one attempt, state of another": lambda batches: batches[1][0].update(secret=99),
    "old state": lambda batches: batches[2][0].update(old_secret=11),
    "lost state": lambda batches: batches[2][0].update(old_secret=None, rows=2),
    "a batch's output is lost": lambda batches: batches.pop(1),
    "a batch's output came twice": lambda batches: batches.insert(1, batches[1]),
    "two batches changed places": lambda batches: batches.reverse(),
    "a key was made up": lambda batches: batches[0].append(link("c", 1, None, 41)),
    "a key was lost": lambda batches: batches[1].pop(),
    "the last batch is missing": lambda batches: batches.pop(),
}


@pytest.mark.parametrize("wrong", WRONGS)
def test_a_chain_with_a_fault_is_condemned(wrong: str) -> None:
    batches = chained()
    WRONGS[wrong](batches)
    with pytest.raises(Broken):
        judge.check_chain(batches, TRUTH)


def test_disorder_counts_only_where_there_is_an_order() -> None:
    batches = chained()
    batches[1][0]["disorder"] = 1
    judge.check_chain(batches, TRUTH, ordered=False)


def lived() -> list[list[dict[str, Any]]]:
    return [
        [link("a", 2, None, 11, closed=False), link("b", 2, None, 21, closed=False)],
        [link("a", 3, 11, 12, closed=False)],
        [link("a", 3, 12, None, closed=True)],
        [link("a", 2, None, 13, closed=False), link(None, 1, None, 31, closed=False)],
    ]


def test_lives_add_up() -> None:
    judge.check_lives(lived(), TRUTH)


LIFE_WRONGS = {
    "a row was lost": lambda batches: batches[3][0].update(rows=1),
    "a life is forgotten without its last row": lambda batches: batches.pop(2),
    "a life ends twice": lambda batches: batches.insert(3, batches[2]),
    "a life ends with another count": lambda batches: batches[2][0].update(rows=2),
    "a life goes on after its end": lambda batches: batches[3][0].update(old_secret=12),
    "the wrong life ends": lambda batches: batches[2][0].update(old_secret=11),
    "a row came twice": lambda batches: batches[1][0].update(disorder=1),
}


@pytest.mark.parametrize("wrong", LIFE_WRONGS)
def test_a_life_with_a_fault_is_condemned(wrong: str) -> None:
    batches = lived()
    LIFE_WRONGS[wrong](batches)
    with pytest.raises(Broken):
        judge.check_lives(batches, TRUTH)


FILES = [[{"key": "a", "sequence": 1}, {"key": "b", "sequence": 2}], [{"key": "a", "sequence": 3}], []]
FILES[2].append({"key": "b", "sequence": 4})


def total(key: str, rows: int, sum_: int, latest: int) -> dict[str, Any]:
    return {"key": key, "rows": rows, "total": sum_, "latest": latest}


def summed() -> list[list[dict[str, Any]]]:
    return [[total("a", 1, 1, 0), total("b", 1, 2, 0)], [total("a", 2, 4, 1), total("b", 2, 6, 2)]]


def test_totals_of_batches_of_one_file_or_two_pass() -> None:
    judge.check_totals(summed(), FILES)


TOTAL_WRONGS = {
    "a row was lost": lambda batches: batches[1][0].update(rows=1, total=1),
    "a row was applied twice": lambda batches: batches[1][0].update(rows=3, total=7),
    "one row in place of another": lambda batches: batches[0][0].update(total=2),
    "a key is missing": lambda batches: batches[0].pop(0),
    "a row came twice": lambda batches: batches[0].append(batches[0][0]),
    "a batch is missing": lambda batches: batches.pop(),
    "a batch has no rows": lambda batches: batches.insert(1, []),
}


@pytest.mark.parametrize("wrong", TOTAL_WRONGS)
def test_totals_with_a_fault_are_condemned(wrong: str) -> None:
    batches = summed()
    TOTAL_WRONGS[wrong](batches)
    with pytest.raises(Broken):
        judge.check_totals(batches, FILES)


def test_windows_are_written_once_each() -> None:
    rows = [{"key": None, "n": 1}, {"key": "a", "n": 2}, {"key": "a", "n": 3}]
    judge.check_once([rows[:1], rows[1:]], reversed(rows))
    for wrong in (rows[1:], [*rows, rows[0]], [rows[0], rows[1], rows[1]], [*rows[:2], {"key": "a", "n": 4}]):
        with pytest.raises(Broken):
            judge.check_once([wrong], rows)


def test_last_rows_are_sparks() -> None:
    batches = [[{"key": "a", "rows": 1, "x": 0}], [{"key": "a", "rows": 3, "x": 0}, {"key": "b", "rows": 1, "x": 0}]]
    sparks = [{"key": "a", "rows": 3}, {"key": "b", "rows": 1}]
    judge.check_last(batches, sparks)
    for wrong in (sparks[:1], [*sparks, {"key": "c", "rows": 1}], [sparks[0], {"key": "b", "rows": 2}]):
        with pytest.raises(Broken):
            judge.check_last(batches, wrong)
