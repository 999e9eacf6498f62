"""What the race on skewed streams measured, for the claims that need a running stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unskew_lab.bench import store
from unskew_lab.experiments.claims import Finding

THROUGHPUT = "throughput over round robin"
LATENCY = "event latency, median"
IDEAL, HASH, PKG, SHUFFLE = "round robin", "Spark's hash", "partial key grouping", "shuffle and merge"


class Running:
    """The rows of one run of ``unskew bench race``; `LookupError` for what was not measured.

    >>> rows = [{"name": "Social: throughput over round robin", "contender": "Mixed 0.02", "value": 0.97}]
    >>> Running({"rows": rows}).throughput("Social", "Mixed 0.02")
    0.97
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._values = {(row["name"], row["contender"]): float(row["value"]) for row in record["rows"]}

    def value(self, stream: str, measure: str, who: str) -> float:
        return self._values[f"{stream}: {measure}", who]

    def throughput(self, stream: str, who: str) -> float:
        """Return the throughput over that of perfectly even channels."""
        return self.value(stream, THROUGHPUT, who)

    def latency(self, stream: str, who: str) -> float:
        return self.value(stream, LATENCY, who)

    def contenders(self, stream: str) -> list[str]:
        """Return who ran on a stream, except for the bound."""
        return [who for name, who in self._values if name == f"{stream}: {THROUGHPUT}" and who != IDEAL]


Tests = Mapping[str, Callable[[Running], tuple[str, bool]]]  # by claim: what was measured, and whether it holds


def newest_run(folder: Path | None = None) -> Running:
    """Return the newest whole run that is kept here; an empty one if there is none."""
    paths = sorted((folder or store.FOLDER).glob("*/race.json"))
    whole = [record for record in map(store.load, paths) if not record["quick"]]
    return Running(max(whole, key=lambda record: record["began"] or "", default={"rows": []}))


def findings_of(tests: Tests, running: Running | None = None) -> Iterator[Finding]:
    """Yield the finding of every test that the run, by default the newest, has measured all values for."""
    found = newest_run() if running is None else running
    for id, test in tests.items():
        try:
            measured, holds = test(found)
        except (LookupError, ValueError):  # a part that has not run has no best either
            continue
        yield id, measured, holds
