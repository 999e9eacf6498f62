"""The results as tables, written into a page between two marks; what the page says around them is written by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from chaos.book import Book
from chaos.phases import PHASES

BEGIN, END = "<!-- chaos: results begin -->", "<!-- chaos: results end -->"
COLUMNS = ("start", *PHASES, "between batches")
ENOUGH = 1000
VICTIMS = {"worker": "Python worker", "executor": "executor", "driver": "driver"}


def write_page(page: Path, book: Book) -> None:
    """Put the results of a book into a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    if not after:
        raise ValueError(f"{page} does not have the lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{results(book)}\n{END}{after}")


def results(book: Book) -> str:
    """Return all tables."""
    return "\n".join([*_summary(book), "", *_kills(book), "", *_queries(book), "", *_faults(book), ""])


def _summary(book: Book) -> list[str]:
    rounds, broken = book.rounds, book.broken
    seeds = ", ".join(str(seed) for seed in sorted({entry["seed"] for entry in rounds}))
    commits = ", ".join(f"`{commit}`" for commit in sorted({entry["commit"] for entry in rounds}))
    verdict = "**every round was exact**" if not broken else f"**{len(broken)} rounds were not exact**"
    starts, stops = (sum(entry[name] for entry in rounds) for name in ("starts", "stops"))
    facts = {
        "verdict": f"{verdict}: {_rows(rounds)} rows in {_sum(rounds, 'batches'):,} batches of {len(rounds)} rounds",
        "processes killed": f"{book.kills.total():,}",
        "other faults": f"{sum(len(entry['faults']) for entry in rounds):,}",
        "starts of a driver": f"{starts:,}, {stops} of them after so many tasks had died that Spark gave up a job",
        "when": f"{min(e['at'] for e in rounds)} to {max(e['at'] for e in rounds)}" if rounds else "never",
        "seed": f"{seeds}; rounds {_ranges(entry['number'] for entry in rounds)}",
        "code": f"commit {commits}, whose folders of code that a query runs have the digest `{book.code.product}`",
    }
    lines = _table(("", ""), facts.items())
    if book.kills.total() < ENOUGH:
        lines += ["", f"**This run is too short to prove much.** A release needs {ENOUGH:,} kills."]
    for entry in broken:
        lines += ["", f"Round {entry['number']} of seed {entry['seed']} was not exact: {entry['verdict'][:300]}"]
    return lines


def _kills(book: Book) -> list[str]:
    kills, phases = book.kills, [phase for phase in COLUMNS if any(key[1] == phase for key in book.kills)]
    rows = []
    for victim, name in VICTIMS.items():
        counts = [kills[victim, phase] for phase in phases]
        rows.append((name, *counts, sum(counts)))
    rows.append(("all", *(sum(row[at] for row in rows) for at in range(1, len(phases) + 2))))
    workers = [k for entry in book.rounds for k in entry["kills"] if k["victim"] == "worker"]
    busy = sum(kill["busy"] for kill in workers)
    said = f"{busy:,} of the {len(workers):,} Python workers were on a core, or waited for one, when they died."
    return [*_table(("killed", *phases, "all"), rows), "", said]


def _queries(book: Book) -> list[str]:
    rows = []
    for query, master in sorted({(entry["query"], entry["master"]) for entry in book.rounds}):
        rounds = [entry for entry in book.rounds if (entry["query"], entry["master"]) == (query, master)]
        victims = Counter(kill["victim"] for entry in rounds for kill in entry["kills"])
        exact = sum(entry["verdict"] == "exact" for entry in rounds)
        counts = [victims[victim] for victim in VICTIMS]
        rows.append((query, f"`{master}`", len(rounds), _sum(rounds, "batches"), _rows(rounds), *counts, exact))
    names = ("query", "master", "rounds", "batches", "rows", "workers", "executors", "drivers", "exact rounds")
    return _table(names, rows)


def _faults(book: Book) -> list[str]:
    found: dict[tuple[str, str], list[str]] = {}
    for entry in book.rounds:
        for fault in entry["faults"]:
            outcome = fault["outcome"].partition(",")[0] if fault["fault"] == "zombie" else fault["outcome"]
            found.setdefault((fault["fault"], outcome.partition(" (")[0]), []).append(fault["message"])
    rows = [(fault, len(said), outcome, _quoted(said[0])) for (fault, outcome), said in sorted(found.items())]
    return _table(("fault", "times", "outcome", "message, the first one"), rows) if rows else ["No other faults."]


def _ranges(numbers: Iterable[int]) -> str:
    """Return numbers as text, neighbours as a range."""
    ranges: list[list[int]] = []
    for number in sorted(set(numbers)):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in ranges)


def _quoted(message: str) -> str:
    return f"`{message.replace('|', '/').replace('`', chr(39))}`" if message else ""


def _rows(rounds: Sequence[dict[str, Any]]) -> str:
    return f"{_sum(rounds, 'rows'):,}"


def _sum(rounds: Sequence[dict[str, Any]], name: str) -> int:
    return sum(entry[name] for entry in rounds)


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    lines = [names, ["---"] * len(names), *rows]
    return ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines]
