"""Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance": its evaluation, run again."""

from __future__ import annotations

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.fang import running, verdicts
from unskew_lab.experiments.fang.figures import figures
from unskew_lab.experiments.fang.grid import Trial, trials
from unskew_lab.experiments.fang.results import Results
from unskew_lab.experiments.fang.stream import follow
from unskew_lab.experiments.fang.theorems import count_violations
from unskew_lab.experiments.runner import Measures


def run_trial(trial: Trial) -> Measures:
    """Follow a stream, or put the theorems to the test."""
    return count_violations(trial) if trial.figure == "theorems" else follow(trial)


class Fang(Experiment):
    """Figures 7 to 12 and 17 to 21, and the theorems; 13 to 16 by the newest whole ``unskew bench race``."""

    name = "fang"
    summary = "Mixed, MinTable, MinMig and Readj on a fluctuating Zipf stream; the theorems"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    verdicts = (verdicts, running)
    figures = staticmethod(figures)
