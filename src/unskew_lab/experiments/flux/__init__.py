"""Shah et al., "Flux: An Adaptive Partitioning Operator for Continuous Query Systems": its evaluation, simulated."""

from __future__ import annotations

from unskew_lab.experiments.base import Experiment
from unskew_lab.experiments.flux import verdicts
from unskew_lab.experiments.flux.figures import draw_all
from unskew_lab.experiments.flux.grid import trials
from unskew_lab.experiments.flux.results import Results, run_trial


class Flux(Experiment):
    """Figures 3 and 6 to 10, and what the text says beside them, on a simulated cluster of 32 machines."""

    name = "flux"
    summary = "slots that move by load and by memory on 32 simulated machines: throughput, latency"

    grid = staticmethod(trials)
    measure = staticmethod(run_trial)
    results = Results
    verdicts = (verdicts,)
    figures = staticmethod(draw_all)
