"""Gedik, "Partitioning functions for stateful data parallelism in stream processing": its evaluation, run again."""

from __future__ import annotations

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.gedik import verdicts_balance, verdicts_cost
from unskew_lab.experiments.gedik.chain import run_trial
from unskew_lab.experiments.gedik.figures import draw_all
from unskew_lab.experiments.gedik.grid import trials
from unskew_lab.experiments.gedik.results import Results


class Gedik(Experiment):
    """Figures 3 to 14, and a sweep over the balance ratio."""

    name = "gedik"
    summary = "scan, redist and readj against hashing as channels are added: balance, migration, size, time"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    verdicts = (verdicts_balance, verdicts_cost)
    figures = staticmethod(draw_all)
