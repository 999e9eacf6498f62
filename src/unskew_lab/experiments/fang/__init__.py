"""Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance": its evaluation, run again."""

from __future__ import annotations

from typing import ClassVar

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.fang.figures import figures
from unskew_lab.experiments.fang.grid import Trial, trials
from unskew_lab.experiments.fang.results import Results
from unskew_lab.experiments.fang.running import judge_running
from unskew_lab.experiments.fang.stream import follow
from unskew_lab.experiments.fang.theorems import count_violations
from unskew_lab.experiments.fang.verdicts import (
    judge_channels,
    judge_compact,
    judge_keys,
    judge_rates,
    judge_skew,
    judge_tables,
    judge_theorems,
    judge_tolerances,
    judge_windows,
)
from unskew_lab.experiments.runner import Measures


def run_trial(trial: Trial) -> Measures:
    """Follow a stream, or put the theorems to the test."""
    return count_violations(trial) if trial.figure == "theorems" else follow(trial)


class Fang(Experiment):
    """Figures 7 to 12 and 17 to 21, and the theorems; 13 to 16 by the newest whole ``unskew bench race``."""

    name: ClassVar[str] = "fang"
    summary: ClassVar[str] = "Mixed, MinTable, MinMig and Readj on a fluctuating Zipf stream; the theorems"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    judges = (
        judge_skew,
        judge_channels,
        judge_tolerances,
        judge_keys,
        judge_compact,
        judge_rates,
        judge_running,
        judge_tables,
        judge_windows,
        judge_theorems,
    )
    figures = staticmethod(figures)
