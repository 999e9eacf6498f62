from __future__ import annotations

import json

import pytest

from unskew.errors import ArgumentError
from unskew_lab.experiments.claims import Claim, judge_claims, save_claims

TABLE = {
    "a": {"figure": "6", "claim": "b exceeds 2", "expected": "b > 2", "otherwise": "another hash, {hash}"},
    "b": {"figure": "12", "claim": "takes 10 s", "reason": "other machine"},
    "c": {"figure": "13", "claim": "is fast", "expected": "1 s", "note": "on one machine"},
}
WORDS = {"hash": "crc32"}


def test_a_claim_is_confirmed_or_refuted_by_what_was_measured():
    confirmed, open_, noted = judge_claims(TABLE, [("c", "0.5 s", True), ("a", "2.4", True, WORDS)])
    assert (confirmed.verdict, confirmed.reason, confirmed.measured) == ("confirmed", "", "2.4")
    assert (open_.verdict, open_.reason, open_.expected) == ("not comparable", "other machine", "not applicable")
    assert (noted.verdict, noted.reason) == ("confirmed", "on one machine")
    refuted = judge_claims(TABLE, [("a", "1.9", False, WORDS)])[0]
    assert (refuted.verdict, refuted.reason) == ("refuted", "another hash, crc32")


def test_what_needs_a_running_stream_is_open_without_one():
    assert "unskew bench race" in judge_claims({"c": TABLE["c"]}, [])[0].reason


def test_a_finding_without_a_claim_is_refused():
    with pytest.raises(ArgumentError, match="belong to no claim"):
        judge_claims(TABLE, [("d", "2.4", True)])


def test_whatever_is_not_confirmed_needs_a_reason():
    with pytest.raises(ArgumentError, match="needs a reason"):
        Claim("a", "6", "b exceeds 2", "b > 2", "1.9", "refuted")
    with pytest.raises(ArgumentError, match="no such verdict"):
        Claim("a", "6", "b exceeds 2", "b > 2", "1.9", "perhaps", "who knows")


def test_claims_survive_the_file(tmp_path):
    claims = judge_claims(TABLE, [("a", "2.4", True, WORDS)])[:2]
    save_claims(claims, tmp_path / "claims.json")
    assert [Claim(**each) for each in json.loads((tmp_path / "claims.json").read_text())] == claims
    fields = ["id", "figure", "claim", "expected", "measured", "verdict", "reason"]
    assert [list(claim) for claim in json.loads((tmp_path / "claims.json").read_text())] == [fields, fields]
