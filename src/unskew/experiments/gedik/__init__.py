"""Gedik, "Partitioning functions for stateful data parallelism in stream processing": its evaluation, run again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from unskew.experiments.base import Experiment, Rows
from unskew.experiments.claims import Claim
from unskew.experiments.gedik import verdicts_choices, verdicts_cost, verdicts_skew, verdicts_sweeps
from unskew.experiments.gedik.chain import run_trial
from unskew.experiments.gedik.figures import draw_all
from unskew.experiments.gedik.grid import Trial, trials
from unskew.experiments.gedik.results import Results
from unskew.experiments.runner import Measures

JUDGES = (
    verdicts_skew.figure_3,
    verdicts_skew.figure_4,
    verdicts_sweeps.figure_5,
    verdicts_sweeps.figure_6,
    verdicts_choices.figure_7,
    verdicts_choices.figure_8,
    verdicts_cost.figure_9,
    verdicts_cost.figure_10,
    verdicts_cost.figure_11,
    verdicts_cost.figure_12,
    verdicts_cost.figure_13,
    verdicts_cost.figure_14,
    verdicts_cost.table_1,
)


class Gedik(Experiment):
    """Figures 3 to 14, and a sweep over the balance ratio."""

    name: ClassVar[str] = "gedik"
    summary: ClassVar[str] = (
        "scan, redist and readj against hashing as channels are added: balance, migration, size, time"
    )

    @property
    def measure(self) -> Callable[[Trial], Measures]:
        """The function that runs one trial."""
        return run_trial

    def trials(self, quick: bool) -> Sequence[Trial]:
        """Return what to run."""
        return trials(quick=quick)

    def judge(self, rows: Rows) -> list[Claim]:
        """Return one entry per claim of the paper."""
        results = Results(rows)
        return [claim for judge in JUDGES for claim in judge(results)]

    def draw(self, rows: Rows, folder: Path) -> None:
        """Write the figures as PNG files."""
        draw_all(Results(rows), folder)
