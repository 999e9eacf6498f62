"""Advice is right: the gain that it predicts is the gain that runs of both then show."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from unskew.advice.command import Asked, answer
from unskew.advice.predict import BALANCE

pytestmark = [pytest.mark.slow, pytest.mark.spark]

WITHIN = 0.2


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the folder of a run and the gain that was measured, native over balanced, by median batches."""
    folder = tmp_path_factory.mktemp("runs")
    script = Path(__file__).with_name("native_and_balanced.py")
    command = [sys.executable, str(script), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ})
    taken = json.loads(done.stdout.splitlines()[-1])
    return folder, statistics.median(taken["native"]) / statistics.median(taken["balanced"])


@pytest.mark.parametrize("kind", ["eventlog", "checkpoint"])
def test_the_predicted_gain_is_the_measured_one(spark, runs, kind):
    folder, measured = runs
    [log] = (folder / "log").iterdir()
    place = log if kind == "eventlog" else folder / "native"
    advice = answer(Asked(source=f"{kind}:{place}", cores=8))
    assert advice.hot_keys[0].key == "ada"
    assert advice.remedy(BALANCE).gain == pytest.approx(measured, rel=WITHIN)
