"""A paper's claims and figures as a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unskew_lab.report.document import Section, cards, paragraph, picture, raw_table
from unskew_lab.report.document import escape as plain

COLOURS = {"confirmed": "green", "refuted": "red", "not comparable": ""}
HEADINGS = ("figure", "claim", "expected", "measured", "verdict")


def sections(claims: Sequence[Mapping[str, Any]], figures: Sequence[Path]) -> list[Section]:
    """Return the verdicts counted, every claim, and the figures, which are PNG files."""
    counted = Counter(claim["verdict"] for claim in claims)
    numbers = cards((f"{counted[verdict]}", colour, verdict) for verdict, colour in COLOURS.items())
    found = [Section("Claims", numbers + raw_table(HEADINGS, [_cells(claim) for claim in claims]))]
    if figures:
        body = "\n".join(f"<h3>{plain(figure.stem)}</h3>\n{picture(figure)}" for figure in figures)
        found.append(Section("Figures", body))
    return found


def _cells(claim: Mapping[str, Any]) -> list[str]:
    verdict = f'<span class="{COLOURS.get(claim["verdict"], "")}">{plain(claim["verdict"])}</span>'
    reason = paragraph(claim["reason"], "soft") if claim.get("reason") else ""
    return [*(plain(str(claim[name])) for name in HEADINGS[:4]), verdict + reason]
