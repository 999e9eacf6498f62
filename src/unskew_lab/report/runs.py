"""What a file or folder holds, and the page for it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from unskew.errors import ArgumentError
from unskew_lab.bench import store
from unskew_lab.report import benchmarks, paper, race
from unskew_lab.report.document import Document, Section

CLAIMS = "claims.json"  # as unskew paper calls it; its figures lie beside it
HINT = "give what unskew bench, unskew paper or unskew demo has kept: a file, or a folder of them"


def write_report(run: Path, out: Path) -> Path:
    """Write one page on everything that `run`, a file or a folder, holds, and return its absolute path.

    Benchmarks go to Markdown if `out` ends in ``.md``.
    """
    if out.suffix == ".md":
        return benchmarks.write_benchmarks(store.newest(_records(run)), out)
    return document(run).write(out)


def document(run: Path) -> Document:
    """Return the page: that of the race or of the benchmarks alone, or all kinds below each other."""
    documents = list(_documents(run))
    if not documents:
        raise ArgumentError("there is no result here", where=str(run), hint=HINT)
    if len(documents) == 1:
        return documents[0]
    sections: list[Section] = []
    for each in documents:
        sections += [Section(each.title, f"<p>{each.lead}</p>{each.opening}"), *each.sections]
    return Document("Results of unskew", f"{len(documents)} runs in {run}.", sections)


def _documents(run: Path) -> Iterable[Document]:
    found = {path: _read(path) for path in _files(run)}
    for result in found.values():
        if kind(result) == "demo":
            yield race.document(result)
    records = store.newest(_records(run))
    if records:
        yield benchmarks.document(records)
    for path, claims in found.items():
        if kind(claims) == "paper":
            name = path.parent.name.removeprefix("paper-")
            figures = sorted(path.parent.glob("*.png")) if path.name == CLAIMS else []
            yield Document(f"Claims of {name}", f"unskew paper {name}", paper.sections(claims, figures))


def _records(run: Path) -> list[store.Record]:
    return [store.load(path) for path in _files(run) if kind(_read(path)) == "bench"]


def kind(result: Any) -> str | None:
    """Return whose result it is: ``"demo"``, ``"bench"``, ``"paper"``, or None.

    >>> kind({"benchmark": "skew", "rows": []}), kind([{"claim": "a", "verdict": "confirmed"}]), kind({"a": 1})
    ('bench', 'paper', None)
    """
    if isinstance(result, dict):
        if {"racers", "settings"} <= set(result):
            return "demo" if (result["racers"]["hash"]["figures"] is not None) else None
        return "bench" if {"benchmark", "rows"} <= set(result) else None
    claims = isinstance(result, list) and all(isinstance(each, dict) and "verdict" in each for each in result)
    return "paper" if claims and result else None


def _files(run: Path) -> list[Path]:
    if not run.exists():
        raise ArgumentError("there is no such file or folder", got=str(run), hint=HINT)
    return sorted(run.rglob("*.json")) if run.is_dir() else [run]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise ArgumentError("this is not JSON", where=str(path), got=str(problem), hint=HINT) from None
