"""Gedik, "Partitioning functions for stateful data parallelism in stream processing": its evaluation, run again."""

from __future__ import annotations

from typing import ClassVar

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.gedik import verdicts_balance, verdicts_cost
from unskew_lab.experiments.gedik.chain import run_trial
from unskew_lab.experiments.gedik.figures import draw_all
from unskew_lab.experiments.gedik.grid import trials
from unskew_lab.experiments.gedik.results import Results

JUDGES = (
    verdicts_balance.figure_3,
    verdicts_balance.figure_4,
    verdicts_balance.figure_5,
    verdicts_balance.figure_6,
    verdicts_cost.figure_7,
    verdicts_cost.figure_8,
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

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    judges = JUDGES
    figures = staticmethod(draw_all)
