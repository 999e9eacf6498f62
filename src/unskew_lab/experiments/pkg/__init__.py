"""Nasir et al., "Partial Key Grouping": its evaluation, run again."""

from __future__ import annotations

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.pkg import verdicts_balance, verdicts_sources
from unskew_lab.experiments.pkg.figures import draw_all
from unskew_lab.experiments.pkg.grid import trials
from unskew_lab.experiments.pkg.results import Results
from unskew_lab.experiments.pkg.trial import run_trial


class Pkg(Experiment):
    """Table 2 and Figures 4 to 9; Figure 10 and Table 3 by the newest whole ``unskew bench race``."""

    name = "pkg"
    summary = "two choices for every tuple against hashing and whole keys: balance, estimates, skew"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    verdicts = (verdicts_balance, verdicts_sources)
    figures = staticmethod(draw_all)
