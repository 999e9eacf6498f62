"""The dashboard and the alert rules use metrics, and labels of them, that a query really exports."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from made_up import batch
from unskew.cli import app
from unskew.metrics import path_of
from unskew.spark.prometheus import count_batch, prometheus_text

ROOT = Path(__file__).parents[2]
DASHBOARD: dict[str, Any] = json.loads(path_of("grafana").read_text(encoding="utf-8"))
RULES: list[dict[str, Any]] = yaml.safe_load(path_of("alerts").read_text(encoding="utf-8"))["groups"][0]["rules"]
QUERIES = {
    **{panel["title"]: target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]},
    **{each["label"]: each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each},
    **{rule["alert"]: rule["expr"] for rule in RULES},
}


def exported() -> dict[str, set[str]]:
    """Return the labels of every metric in the text of a query that has run batches."""
    totals: Counter[str] = Counter()
    count_batch(totals, batch(20))
    samples = re.findall(r"^(unskew_\w+)\{(.*)\} \S+$", prometheus_text("clicks", batch(20), totals), re.MULTILINE)
    found: dict[str, set[str]] = {}
    for name, labels in samples:
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    return found


@pytest.mark.parametrize("last", [None, batch(20)], ids=["before a batch", "after one"])
def test_every_sample_has_help_and_type(last) -> None:
    described: dict[str, list[str]] = {}
    for line in prometheus_text("clicks", last, Counter(batches=1)).splitlines():
        name = line.split("{")[0] if line.startswith("unskew_") else line.split()[2]
        kind = "sample" if line.startswith("unskew_") else line.split()[1]
        described.setdefault(name, []).append(kind)
        if kind == "TYPE":
            assert line.split()[3] == ("counter" if name.endswith("_total") else "gauge")
    assert all(kinds[:3] == ["HELP", "TYPE", "sample"] for kinds in described.values())
    assert all(set(kinds[2:]) == {"sample"} for kinds in described.values())


def test_the_names_are_those_of_the_reference() -> None:
    """A name is a promise: whoever changes one has to change this page, and with it somebody's dashboard."""
    page = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8").split("## For Prometheus")[1]
    table = page.split("\n\n| name | kind")[1].split("\n\n")[0]
    assert set(re.findall(r"`(unskew_\w+)`", table)) == set(exported())


@pytest.mark.parametrize("name", QUERIES)
def test_queries_use_what_is_exported(name: str) -> None:
    used = re.findall(r"unskew_\w+", QUERIES[name])
    assert used
    assert set(used) <= set(exported())
    labels = set().union(*(exported()[metric] for metric in used))
    grouped = re.findall(r"\b(?:by|on) \(([^)]*)\)", QUERIES[name])
    assert {label.strip() for names in grouped for label in names.split(",")} <= labels


def test_legends_and_messages_use_labels_that_are_there() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            of_metrics = set().union(*(exported()[metric] for metric in re.findall(r"unskew_\w+", target["expr"])))
            assert {"query"} <= names <= of_metrics, panel["title"]
    for rule in RULES:
        names = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
        assert names <= {label.strip() for label in re.search(r"by \(([^)]*)\)", rule["expr"])[1].split(",")}


def test_panels_do_not_overlap() -> None:
    places = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_the_command_prints_the_files() -> None:
    for name in ("grafana", "alerts"):
        text = path_of(name).read_text(encoding="utf-8")
        done = CliRunner().invoke(app, ["metrics", name])
        assert (done.exit_code, done.stdout) == (0, text)
        told = json.loads(CliRunner().invoke(app, ["metrics", name, "--json"]).stdout)
        assert told == {"path": str(path_of(name)), "text": text}
