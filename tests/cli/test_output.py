from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from unskew.bars import bars
from unskew.cli.output import print_json


def render(renderable, **options):
    console = Console(file=io.StringIO(), width=80, **options)
    console.print(renderable)
    return console.file.getvalue()


def test_json_takes_what_results_are_made_of(capsys):
    @dataclass(frozen=True)
    class Result:
        loads: np.ndarray
        worst: float
        file: Path

    value = {"result": Result(np.array([1, 2]), float("inf"), Path("a/b")), 3: np.float64(0.5), "flag": np.bool_(True)}
    print_json(value)
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"result": {"loads": [1, 2], "worst": None, "file": "a/b"}, "3": 0.5, "flag": True}


@pytest.mark.parametrize("values", [[40, 20, 10, 0], [0, 0, 0, 0], []])
def test_bars_are_as_long_as_their_values(values):
    labels = [f"channel {index}" for index in range(len(values))]
    lengths = [line.count("█") for line in render(bars(labels, values, width=40)).splitlines() if "channel" in line]
    assert lengths == values


def test_bars_above_the_tolerated_mean_are_red():
    shown = render(bars(["low", "high"], [90, 112], tolerance=0.1), force_terminal=True, color_system="standard")
    low, high = shown.splitlines()[:2]
    assert "\x1b[32;" in low
    assert "\x1b[31;" in high


def test_notes_stand_beside_the_bars_as_they_are():
    assert "[7 rows]" in render(bars(["a"], [7], notes=["[7 rows]"]))
