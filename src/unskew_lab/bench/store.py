"""Results on disk: by commit, a changed tree labelled as such, and by configuration."""

from __future__ import annotations

import datetime
import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from unskew import machine
from unskew.errors import ArgumentError
from unskew_lab.bench.harness import Benchmark, report

FOLDER = Path("artifacts") / "bench"

Record = dict[str, Any]


def measure(benchmark: Benchmark, quick: bool) -> Record:
    """Run a benchmark and return all that is to be kept: the report, and how, when and for how long it ran.

    Rows have what is better, spread, samples and interval beside the fields of the report.
    """
    began, start, load_average = datetime.datetime.now(datetime.UTC), time.perf_counter(), _load_average()
    rows = benchmark.run(quick)
    return {
        **report(benchmark.name, rows),
        "rows": [row.as_record() for row in rows],
        "summary": benchmark.summary,
        "quick": quick,
        "began": began.isoformat(timespec="seconds"),
        "took_seconds": round(time.perf_counter() - start, 1),
        "load_average": load_average,
        "notes": list(benchmark.notes),
        **({"table": benchmark.table} if benchmark.table else {}),
    }


def _load_average() -> float | None:
    """Return how many processes wanted a core during the last minute; None where that is not known."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def failure(name: str, quick: bool, reason: str) -> Record:
    """Return what is kept of a benchmark that did not end."""
    return {
        **report(name, []),
        "summary": "",
        "quick": quick,
        "began": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "took_seconds": None,
        "notes": [reason],
    }


def printed(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a record that ``unskew bench NAME --json`` prints."""
    fields = ("name", "contender", "value", "unit", "ratio", "target", "met")
    rows = [{field: row[field] for field in fields} for row in record["rows"]]
    return {**{name: record[name] for name in ("benchmark", "commit", "machine")}, "rows": rows}


def place(name: str, quick: bool, commit: str | None = None, folder: Path = FOLDER) -> Path:
    """Return where a result belongs.

    >>> place("skew", quick=True, commit="dirty-32a4d7d0c1f2").as_posix()
    'artifacts/bench/dirty-32a4d7d0c1f2/skew-quick.json'
    """
    return folder / (commit or machine.commit()) / f"{name}{'-quick' if quick else ''}.json"


def save(record: Mapping[str, Any], path: Path) -> None:
    """Write a record as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(path: Path) -> Record:
    """Read a record, or what ``--json`` printed; what the latter lacks is filled in."""
    found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or not {"benchmark", "commit", "machine", "rows"} <= set(found):
        raise ArgumentError("this is not a result of unskew bench", where=str(path))
    rows = [{"better": "higher", "spread": None, "samples": [], "interval": None, **row} for row in found["rows"]]
    return {"summary": "", "quick": False, "began": None, "took_seconds": None, "notes": [], **found, "rows": rows}


def newest(records: Iterable[Record]) -> list[Record]:
    """Return one record per benchmark, by name: a whole run before a quick one, and a run with rows before a failure.

    >>> quick = {"benchmark": "skew", "quick": True, "rows": [{}], "began": "2026-01-02"}
    >>> newest([quick, {**quick, "quick": False}])[0]["quick"]
    False
    """
    best: dict[str, Record] = {}
    for record in sorted(records, key=lambda each: (bool(each["rows"]), not each["quick"], each["began"] or "")):
        best[record["benchmark"]] = record
    return [best[name] for name in sorted(best)]
