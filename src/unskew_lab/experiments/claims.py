"""What a paper claims, what was measured, and the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from unskew.errors import ArgumentError

Verdict = Literal["confirmed", "refuted", "not comparable"]


@dataclass(frozen=True)
class Claim:
    """One statement of a paper, judged.

    Parameters
    ----------
    id
        Unique within the paper: ``"fig3-uniform-migration"``.
    figure
        Where the paper shows it: ``"3"``, ``"Table 2"``, ``"text"``.
    claim
        The statement in one sentence.
    expected
        What the measured values have to be for the claim to hold, tolerance included.
    measured
        What they are.
    verdict
        ``"confirmed"``, ``"refuted"`` or ``"not comparable"``.
    reason
        Why, where the verdict is not simply ``"confirmed"``.

    Examples
    --------
    >>> Claim.judge("fig6-ring", "6", "the ring's b exceeds 2", expected="b > 2", measured="2.4", holds=True).verdict
    'confirmed'
    """

    id: str
    figure: str
    claim: str
    expected: str
    measured: str
    verdict: Verdict
    reason: str = ""

    def __post_init__(self) -> None:
        if self.verdict not in get_args(Verdict):
            raise ArgumentError("there is no such verdict", where=self.id, got=self.verdict)
        if self.verdict != "confirmed" and not self.reason:
            raise ArgumentError(f"a claim that is {self.verdict} needs a reason", where=self.id)

    @classmethod
    def judge(
        cls, id: str, figure: str, claim: str, *, expected: str, measured: str, holds: bool, otherwise: str = ""
    ) -> Claim:
        """Return the claim as confirmed or refuted; `otherwise` explains a refutation, and is dropped if it holds."""
        if holds:
            return cls(id, figure, claim, expected, measured, "confirmed")
        return cls(id, figure, claim, expected, measured, "refuted", otherwise or "the measured values say otherwise")

    @classmethod
    def cannot_compare(cls, id: str, figure: str, claim: str, *, reason: str, measured: str = "not measured") -> Claim:
        """Return the claim as not comparable."""
        return cls(id, figure, claim, "not applicable", measured, "not comparable", reason)


def save_claims(claims: Iterable[Claim], path: Path) -> None:
    """Write the claims as a JSON list with one object each."""
    listed = [dataclasses.asdict(claim) for claim in claims]
    path.write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def load_claims(path: Path) -> list[Claim]:
    """Read what `save_claims` wrote."""
    return [Claim(**claim) for claim in json.loads(path.read_text(encoding="utf-8"))]
