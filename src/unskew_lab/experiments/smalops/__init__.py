"""Bhattacharya and Wood, SMALOPS: its evaluation, as a simulation of the broker's queues."""

from __future__ import annotations

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.smalops import verdicts
from unskew_lab.experiments.smalops.figures import draw_all
from unskew_lab.experiments.smalops.grid import trials
from unskew_lab.experiments.smalops.results import Results
from unskew_lab.experiments.smalops.trial import run_trial


class SmalopsPaper(Experiment):
    """Figures 7 to 10 and the counts of hot keys. What only a running broker can show is marked as such."""

    name = "smalops"
    summary = "hot keys moved between Kafka partitions against Kafka's partitioner: delays, hot keys"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    verdicts = (verdicts,)
    figures = staticmethod(draw_all)
