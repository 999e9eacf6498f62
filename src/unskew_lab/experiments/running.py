"""What the race on skewed streams measured, for the claims that need a running stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unskew_lab.bench import store
from unskew_lab.experiments.claims import Claim

MISSING = "needs the running stream, and unskew bench race has not been run whole here"

THROUGHPUT = "throughput over round robin"
LATENCY = "event latency, median"
IDEAL, HASH, PKG, SHUFFLE = "round robin", "Spark's hash", "partial key grouping", "shuffle and merge"

Judgement = tuple[str, bool, str]
"""What was measured, whether the claim holds, and why not if it does not."""


class Running:
    """The rows of one run of ``unskew bench race``.

    Examples
    --------
    >>> rows = [{"name": "Social: throughput over round robin", "contender": "Mixed 0.02", "value": 0.97}]
    >>> Running({"rows": rows}).throughput("Social", "Mixed 0.02")
    0.97
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._values = {(row["name"], row["contender"]): float(row["value"]) for row in record["rows"]}

    def value(self, stream: str, measure: str, who: str) -> float:
        """Return a measure of a contender on a stream; `LookupError` if it was not taken."""
        return self._values[f"{stream}: {measure}", who]

    def throughput(self, stream: str, who: str) -> float:
        """Return the throughput over that of perfectly even channels."""
        return self.value(stream, THROUGHPUT, who)

    def latency(self, stream: str, who: str) -> float:
        """Return the median latency of events in seconds."""
        return self.value(stream, LATENCY, who)

    def contenders(self, stream: str) -> list[str]:
        """Return who ran on a stream."""
        return [who for name, who in self._values if name == f"{stream}: {THROUGHPUT}"]


def newest_run(folder: Path | None = None) -> Running:
    """Return the newest whole run that is kept here; an empty one if there is none."""
    paths = sorted((folder or store.FOLDER).glob("*/race.json"))
    whole = [record for record in map(store.load, paths) if not record["quick"]]
    return Running(max(whole, key=lambda record: record["began"] or "", default={"rows": []}))


def judge_run(
    id: str, figure: str, claim: str, expected: str, running: Running, test: Callable[[Running], Judgement]
) -> Claim:
    """Return the claim with its verdict, or as not comparable if the run lacks what the test looks for."""
    try:
        measured, holds, otherwise = test(running)
    except (LookupError, ValueError):  # of a part that has not run there is no best either
        return Claim.cannot_compare(id, figure, claim, reason=MISSING)
    return Claim.judge(id, figure, claim, expected=expected, measured=measured, holds=holds, otherwise=otherwise)


def shown(values: Mapping[Any, float]) -> str:
    """Return numbers in one line.

    Examples
    --------
    >>> shown({"Mixed 0.02": 0.97321, "readj": 0.5})
    'Mixed 0.02 0.973, readj 0.5'
    """
    return ", ".join(f"{name} {value:.3g}" for name, value in values.items())
