"""What a paper claims, what was measured, and the verdict. A paper's claims are a table, ``claims.toml``."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from unskew.errors import ArgumentError

Verdict = Literal["confirmed", "refuted", "not comparable"]

# the claim's id, what was measured, whether it holds (None: not measured), and values that the table's words name
Finding = tuple[str, str, bool | None] | tuple[str, str, bool | None, Mapping[str, Any]]

UNCLEAR = "the measured values say otherwise"
NOT_RUN = "needs the running stream, and unskew bench race has not been run whole here"


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, judged."""

    id: str  # unique within the paper: "fig3-uniform-migration"
    figure: str  # where the paper shows it: "3", "Table 2", "text"
    claim: str  # the statement in one sentence
    expected: str  # what has to be measured for it to hold, tolerance included
    measured: str
    verdict: Verdict
    reason: str = ""  # required unless confirmed

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ArgumentError("there is no such verdict", where=self.id, got=self.verdict)
        if self.verdict != "confirmed" and not self.reason:
            raise ArgumentError(f"a claim that is {self.verdict} needs a reason", where=self.id)


def load_table(path: Path) -> dict[str, dict[str, str]]:
    """Read a table of claims by id.

    Each has a `figure` and a `claim`. One that can be judged says what is `expected`, why it may fail (`otherwise`),
    and what to say in any case (`note`). One that cannot gives the `reason`.
    """
    return tomllib.loads(path.read_text(encoding="utf-8"))


def judge_claims(table: Mapping[str, Mapping[str, str]], findings: Iterable[Finding]) -> list[Claim]:
    """Return the claims of a table with their verdicts, in its order.

    >>> table = {"ring": {"figure": "6", "claim": "the ring's b exceeds 2", "expected": "b > 2"}}
    >>> judge_claims(table, [("ring", "2.4", True)])[0].verdict
    'confirmed'
    """
    found = {finding[0]: finding for finding in findings}
    if stray := found.keys() - table.keys():
        raise ArgumentError("these findings belong to no claim", got=sorted(stray))
    return [_judge(id, row, found.get(id, (id, "not measured", None))) for id, row in table.items()]


def _judge(id: str, row: Mapping[str, str], finding: Finding) -> Claim:
    measured, holds = finding[1:3]
    words = {name: text.format_map(finding[3] if len(finding) > 3 else {}) for name, text in row.items()}
    figure, claim, note = words["figure"], words["claim"], words.get("note", "")
    if holds is None:
        reason = words.get("reason", NOT_RUN)
        return Claim(id, figure, claim, "not applicable", measured, "not comparable", reason)
    if holds:
        return Claim(id, figure, claim, words["expected"], measured, "confirmed", note)
    return Claim(id, figure, claim, words["expected"], measured, "refuted", note or words.get("otherwise", UNCLEAR))


def near(value: float, wanted: float, tolerance: float) -> bool:
    """Tell whether a value differs from what is wanted by at most a share of it."""
    return abs(value - wanted) <= tolerance * abs(wanted)


def mean(curve: Mapping[Any, float], at: Iterable[Any] | None = None) -> float:
    """Return the mean over a curve, or over some of its points."""
    return float(np.mean([curve[point] for point in (curve if at is None else at)]))


def listed(values: Mapping[Any, Any], form: str = ".3g", between: str = " ", scale: float = 1.0) -> str:
    """Return numbers in one line; of several curves, one after the other.

    >>> listed({"Mixed 0.02": 0.97321, "readj": 0.5})
    'Mixed 0.02 0.973, readj 0.5'
    >>> listed({"b": {5: 0.025}, "m": {5: 1.0}}, ".1e")
    'b: 5 2.5e-02; m: 5 1.0e+00'
    """
    if any(isinstance(value, Mapping) for value in values.values()):
        return "; ".join(f"{name}: {listed(curve, form, between, scale)}" for name, curve in values.items())
    return ", ".join(f"{name}{between}{scale * value:{form}}" for name, value in values.items())


def save_claims(claims: Iterable[Claim], path: Path) -> None:
    """Write the claims as a JSON list with one object each."""
    listed = [dataclasses.asdict(claim) for claim in claims]
    path.write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
