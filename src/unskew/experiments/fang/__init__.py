"""Fang et al., "Parallel Stream Processing Against Workload Skewness and Variance": its evaluation, run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from unskew.experiments.base import Experiment, Rows
from unskew.experiments.claims import Claim
from unskew.experiments.fang.figures import figures
from unskew.experiments.fang.grid import Trial, trials
from unskew.experiments.fang.results import Results
from unskew.experiments.fang.stream import follow
from unskew.experiments.fang.theorems import count_violations
from unskew.experiments.fang.verdicts import claims
from unskew.experiments.runner import Measures


class Fang(Experiment):
    """Figures 7 to 12 and 17 to 21, and the theorems. Figures 13 to 16 need the running stream."""

    name: ClassVar[str] = "fang"
    summary: ClassVar[str] = "Mixed, MinTable, MinMig and Readj on a fluctuating Zipf stream; the theorems"

    @property
    def measure(self) -> Callable[[Trial], Measures]:
        """The function that runs one trial."""
        return run_trial

    def trials(self, quick: bool) -> Sequence[Trial]:
        """Return what to run."""
        return trials(quick=quick)

    def judge(self, rows: Rows) -> list[Claim]:
        """Return one entry per claim of the paper."""
        return claims(Results(rows))

    def draw(self, rows: Rows, folder: Path) -> None:
        """Write the figures as PNG files."""
        figures(Results(rows), folder)


def run_trial(trial: Trial) -> Measures:
    """Follow a stream, or put the theorems to the test."""
    return count_violations(trial) if trial.figure == "theorems" else follow(trial)
