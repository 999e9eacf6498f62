from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew.cli import app
from unskew_lab.experiments.base import EXPERIMENTS, Experiment
from unskew_lab.experiments.claims import Claim, save_claims


@pytest.fixture
def example_paper(monkeypatch):
    class Example(Experiment):
        name = "example-of-the-tests"
        summary = "claims that one is less than two"

        def trials(self, quick):
            return [1]

        def run(self, spark, folder, quick=False):
            claims = [Claim("one", "1", "one is less than two", "1 < 2", "1 < 2", "confirmed")]
            folder.mkdir(parents=True)
            save_claims(claims, folder / "claims.json")
            return claims

    monkeypatch.setattr("unskew.spark.session", lambda: None)
    yield
    EXPERIMENTS._members.pop("example-of-the-tests")


def test_verdicts_a_page_and_the_command_for_it(example_paper, tmp_path):
    folder, page = tmp_path / "kept", tmp_path / "page.html"
    arguments = ["paper", "example-of-the-tests", "--out", str(folder), "--page", str(page)]
    shown = CliRunner().invoke(app, arguments).stdout
    assert "1 confirmed, 0 refuted" in shown
    assert f"unskew report {folder}" in shown
    assert "one is less than two" in page.read_text()


def test_json_has_the_claims_alone(example_paper, tmp_path):
    arguments = ["paper", "example-of-the-tests", "--json", "--out", str(tmp_path / "kept")]
    [claim] = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert claim["verdict"] == "confirmed"
