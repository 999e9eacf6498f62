from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from unskew.cli import app, main

runner = CliRunner()
SMALL = ["simulate", "flux", "--nodes", "4", "--partitions", "8", "--buffer", "128", "--seconds", "7"]


@pytest.mark.slow
def test_own_parameters_print_one_object_and_draw(tmp_path):
    result = runner.invoke(app, [*SMALL, "--planner", "flux-load", "--json", "--out", str(tmp_path)])
    printed = json.loads(result.stdout)
    assert len(printed["throughput"]) == 7
    assert printed["totals"]["moves"] == sum(len(r["moves"]) for r in printed["rounds"]) > 0
    assert (tmp_path / "run.png").stat().st_size > 10_000
    assert printed["plot"] == str(tmp_path / "run.png")


def test_own_parameters_print_a_table(tmp_path):
    shown = runner.invoke(app, [*SMALL, "--loaded", "0", "--squeezed", "1", "--out", str(tmp_path)]).stdout
    assert "on disk at the end" in shown
    assert "throughput" in shown


def test_a_study_of_scale_prints_points_and_draws(tmp_path):
    sizes = ["--channels", "4,8", "--keys", "1e4", "--planners", "mixed,flux-load"]
    result = runner.invoke(app, ["simulate", "scale", *sizes, "--json", "--out", str(tmp_path)])
    points = json.loads(result.stdout)["points"]
    assert [(p["keys"], p["channels"], p["planner"]) for p in points] == [
        (10_000, c, p) for c in (4, 8) for p in ("mixed", "flux-load")
    ]
    assert (tmp_path / "scale.png").stat().st_size > 10_000


KAFKA = ["simulate", "kafka", "--partitions", "4", "--service-us", "500", "--seconds", "25", "--keys", "2000"]


def test_queues_of_a_topic_print_runs_side_by_side_and_draw(tmp_path):
    result = runner.invoke(app, [*KAFKA, "--hot", "abs:50", "--json", "--out", str(tmp_path)])
    printed = json.loads(result.stdout)
    runs = printed["runs"]
    assert list(runs) == ["smalops", "kafka", "round-robin"]
    assert runs["round-robin"]["broker_p99_us"] < runs["smalops"]["broker_p99_us"] < runs["kafka"]["broker_p99_us"]
    assert runs["smalops"]["end_to_end_p99_us"] >= runs["smalops"]["broker_p99_us"]
    assert [d["seconds"] for d in printed["decisions"]] == [10.0, 20.0]
    assert (tmp_path / "kafka.png").stat().st_size > 10_000


def test_queues_of_a_topic_print_a_table(tmp_path):
    shown = runner.invoke(app, [*KAFKA, "--planner", "mixed", "--contenders", "smalops", "--out", str(tmp_path)]).stdout
    assert "end to end p99 us" in shown
    assert "mixed" in shown
    assert "round-robin" not in shown


@pytest.mark.slow
def test_a_figure_of_the_paper(tmp_path):
    result = runner.invoke(app, ["simulate", "flux", "--figure", "6", "--json", "--out", str(tmp_path)])
    runs = {run["series"]: run for run in json.loads(result.stdout)["runs"]}
    ends = {name: sum(run["throughput"][-5:]) for name, run in runs.items()}
    assert ends["unperturbed"] > ends["balanced"] > ends["static"]
    assert (tmp_path / "figure-6.png").exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["nothing"], "nothing of that name"),
        (["flux", "--figure", "4"], "no such figure"),
        (["flux", "--nodes", "2", "--loaded", "3"], "but there are only 2"),
        (["flux", "--routing", "pigeon"], "no routing"),
        (["flux", "--planner", "flux-laod"], "no planner"),
        (["scale", "--channels", "ten"], "whole numbers"),
        (["kafka", "--hot", "many"], "does not say which keys are hot"),
        (["kafka", "--hot", "luck:3"], "no such way"),
        (["kafka", "--utilisation", "0"], "above 0"),
        (["kafka", "--seconds", "1", "--keys", "100", "--contenders", "rabbit"], "no such way of routing"),
    ],
)
def test_wrong_arguments_are_answered(capsys, tmp_path, arguments, what):
    with pytest.raises(SystemExit) as stopped:
        main(["simulate", *arguments, "--out", str(tmp_path)])
    assert stopped.value.code == 2
    assert what in capsys.readouterr().err
