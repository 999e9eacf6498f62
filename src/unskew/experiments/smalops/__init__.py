"""Bhattacharya and Wood, SMALOPS: its evaluation, as a simulation of the broker's queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from unskew.experiments.base import Experiment, Rows
from unskew.experiments.claims import Claim
from unskew.experiments.runner import Measures
from unskew.experiments.smalops import verdicts_counting, verdicts_delay
from unskew.experiments.smalops.figures import draw_all
from unskew.experiments.smalops.grid import Trial, trials
from unskew.experiments.smalops.results import Results
from unskew.experiments.smalops.trial import run_trial

JUDGES = (
    verdicts_delay.figure_7,
    verdicts_delay.figure_8,
    verdicts_counting.figure_9,
    verdicts_delay.figure_10,
    verdicts_counting.hot_keys,
    verdicts_delay.conclusion,
    verdicts_counting.application_state,
    verdicts_delay.real_broker,
)


class SmalopsPaper(Experiment):
    """Figures 7 to 10 and the counts of hot keys. What only a running broker can show is marked as such."""

    name: ClassVar[str] = "smalops"
    summary: ClassVar[str] = "hot keys moved between Kafka partitions against Kafka's partitioner: delays, hot keys"

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
