from __future__ import annotations

import json

import pytest

from unskew.errors import ArgumentError
from unskew_lab.experiments.claims import Claim, load_claims, save_claims

ASKED = {"expected": "b > 2", "measured": "2.4"}


def test_a_claim_is_confirmed_or_refuted_by_what_was_measured():
    confirmed = Claim.judge("a", "6", "b exceeds 2", **ASKED, holds=True, otherwise="never said")
    refuted = Claim.judge("a", "6", "b exceeds 2", **ASKED, holds=False, otherwise="another hash")
    assert (confirmed.verdict, confirmed.reason) == ("confirmed", "")
    assert (refuted.verdict, refuted.reason) == ("refuted", "another hash")


def test_whatever_is_not_confirmed_needs_a_reason():
    with pytest.raises(ArgumentError, match="needs a reason"):
        Claim("a", "6", "b exceeds 2", "b > 2", "1.9", "refuted")
    with pytest.raises(ArgumentError, match="no such verdict"):
        Claim("a", "6", "b exceeds 2", "b > 2", "1.9", "perhaps", "who knows")


def test_claims_survive_the_file(tmp_path):
    claims = [
        Claim.judge("a", "6", "b exceeds 2", **ASKED, holds=True),
        Claim.cannot_compare("b", "12", "takes 10 s", reason="other machine"),
    ]
    save_claims(claims, tmp_path / "claims.json")
    assert load_claims(tmp_path / "claims.json") == claims
    fields = ["id", "figure", "claim", "expected", "measured", "verdict", "reason"]
    assert [list(claim) for claim in json.loads((tmp_path / "claims.json").read_text())] == [fields, fields]
