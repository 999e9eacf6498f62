"""Nasir et al., "Partial Key Grouping": its evaluation, run again."""

from __future__ import annotations

from typing import ClassVar

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.pkg import verdicts_estimates, verdicts_running, verdicts_skew, verdicts_table
from unskew_lab.experiments.pkg.figures import draw_all
from unskew_lab.experiments.pkg.grid import trials
from unskew_lab.experiments.pkg.results import Results
from unskew_lab.experiments.pkg.trial import run_trial

JUDGES = (
    verdicts_table.table_2,
    verdicts_estimates.figure_4,
    verdicts_estimates.figure_5,
    verdicts_estimates.figure_6,
    verdicts_skew.figure_7,
    verdicts_skew.figure_8,
    verdicts_skew.figure_9,
    verdicts_skew.beyond,
    verdicts_running.memory,
    verdicts_running.figure_10,
    verdicts_running.table_3,
)


class Pkg(Experiment):
    """Table 2 and Figures 4 to 9; Figure 10 and Table 3 by the newest whole ``unskew bench race``."""

    name: ClassVar[str] = "pkg"
    summary: ClassVar[str] = "two choices for every tuple against hashing and whole keys: balance, estimates, skew"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    judges = JUDGES
    figures = staticmethod(draw_all)
