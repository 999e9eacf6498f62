from __future__ import annotations

import json
from pathlib import Path

import pytest

from unskew_lab.bench.race.parts import whole_parts
from unskew_lab.bench.race.rows import THROUGHPUT
from unskew_lab.experiments import fang, pkg, running
from unskew_lab.experiments.claims import judge_claims, load_table
from unskew_lab.experiments.fang.running import judge_running as judge_fang
from unskew_lab.experiments.pkg.verdicts_sources import judge_running as judge_pkg
from unskew_lab.experiments.running import Running, newest_run

PAPER = {  # throughput over the bound, as the papers have it
    "Spark's hash": 0.4,
    "partial key grouping": 0.8,
    "shuffle and merge": 0.82,
    "Mixed": 0.95,
    "MinTable": 0.85,
    "readj": 0.45,
    "round robin": 1.0,
}


def run_of(value):
    """Return a run in which contender `who` has `value(stream, who)` of the bound's throughput."""
    rows = []
    for part in whole_parts():
        stream = part.stream.name
        for who in {contender.name.partition(", sigma")[0] for contender in part.contenders}:
            found = value(stream, who)
            batch = 1.0 + (5.0 if "long" in stream else 0.5) / found if "word count" in stream else 1 / found
            measures = {
                "throughput over round robin": found,
                "batch, median": batch,
                "event latency, median": 1.0 if "short" in stream else found**-2.5,
                "batches until even again": 2.0 if found > 0.5 else 9.0,
                "plan": 400_000.0 if who.startswith("readj") and found < 0.5 else 1.0,
            }
            rows += [{"name": f"{stream}: {name}", "contender": who, "value": v} for name, v in measures.items()]
    return Running({"rows": rows})


def as_the_papers_say(stream, who):
    tolerance = float(who.split()[-1]) if who[-1].isdigit() else 0.08
    name = who.split()[0] if who[:5] in ("Mixed", "readj") else who
    if name == "readj" and (stream == "fluctuation 0.0" or (tolerance >= 0.15 and stream in ("Social", "Stock"))):
        name = "Mixed"
    return PAPER.get(name, 0.8)


def contrary_to_the_papers(stream, who):
    if who == "round robin":
        return 1.0
    if who in ("Spark's hash", "partial key grouping") or who.startswith("readj"):
        return 1.2
    return 1.25 if who == "MinTable" else 0.7


def verdicts(run):
    judged = []
    for paper, judge in ((fang, judge_fang), (pkg, judge_pkg)):
        table = load_table(Path(paper.__file__).with_name("claims.toml"))
        running = {id: row for id, row in table.items() if row["figure"] in FIGURES[paper.__name__.split(".")[-1]]}
        judged += judge_claims(running, judge(None, run))
    assert all(claim.reason or claim.verdict == "confirmed" for claim in judged)
    return {claim.id: claim.verdict for claim in judged}


FIGURES = {"fang": {"13", "14", "15", "16"}, "pkg": {"10a", "10b", "10c", "Table 3"}}
OPEN = {"fig14-5", "fig15-4", "f10b", "f10c", "t3c"}


def test_every_claim_can_be_confirmed_and_refuted():
    for value, verdict in ((as_the_papers_say, "confirmed"), (contrary_to_the_papers, "refuted")):
        for id, found in verdicts(run_of(value)).items():
            assert found == ("not comparable" if id in OPEN else verdict), (id, value)


def test_without_a_run_nothing_is_compared():
    assert set(verdicts(Running({"rows": []})).values()) == {"not comparable"}


def test_the_newest_whole_run_counts(tmp_path):
    rows = [{"name": "Social: throughput over round robin", "contender": "Mixed 0.02", "unit": "x"}]
    for commit, quick, began, value in (
        ("aaa", False, "2026-01-01", 0.1),
        ("bbb", False, "2026-01-03", 0.3),
        ("ccc", True, "2026-01-04", 0.4),
    ):
        record = {"benchmark": "race", "commit": commit, "machine": {}, "quick": quick, "began": began}
        record["rows"] = [{**rows[0], "value": value}]
        (tmp_path / commit).mkdir()
        (tmp_path / commit / "race.json").write_text(json.dumps(record))
    assert newest_run(tmp_path).throughput("Social", "Mixed 0.02") == 0.3
    with pytest.raises(LookupError):
        newest_run(tmp_path / "aaa").throughput("Social", "Mixed 0.02")


def test_rows_are_looked_up_by_the_names_that_the_benchmark_gives_them():
    assert running.THROUGHPUT == THROUGHPUT
