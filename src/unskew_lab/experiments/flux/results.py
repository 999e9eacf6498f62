"""One run's measures, and what was measured, looked up by curve."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from unskew_lab.experiments.flux.grid import Trial, setup_of
from unskew_lab.experiments.runner import Measures, matches
from unskew_lab.simulation.cluster import simulate

Column = NDArray[np.float64]
Curve = dict[float, float]
STEADY = 8  # seconds at the end of a run over which a steady state is averaged


def run_trial(trial: Trial) -> Measures:
    """Simulate one trial."""
    setup = setup_of(trial)
    run = simulate(setup)
    start = setup.slowdowns[0].site if setup.slowdowns else 0
    left = setup.partitions_per_node - int((run.table.slots == start).sum()) if setup.routing == "flux" else 0
    return {
        "throughput": run.throughput.tolist(),
        "latency": run.latency_seconds.tolist(),
        "on_disk": run.on_disk.tolist(),
        "busy": run.busy_share.mean(axis=1).tolist(),
        "moves": [float(run.moves)],
        "most_moved": [float(max(Counter(p for each in run.rounds for p, _, _ in each.moves).values(), default=0))],
        "left": [float(left)],
        "round": [each.seconds for each in run.rounds],
        "move_seconds": [each.move_seconds for each in run.rounds],
        "collection": [each.collection_seconds for each in run.rounds],
        "moves_per_round": [float(len(each.moves)) for each in run.rounds],
        "checks": [float(run.checks)],
    }


class Results:
    """Measures of trials by figure and curve.

    >>> runs = [(Trial(figure="6", series="static", loaded=1, seed=s), {"throughput": [3.0, 1.0 + s]}) for s in (0, 1)]
    >>> Results(runs).seconds("6", "static").tolist()
    [3.0, 1.5]
    """

    def __init__(self, rows: Sequence[tuple[Trial, Measures]]) -> None:
        self._runs: dict[tuple[str, str], list[tuple[Trial, Measures]]] = defaultdict(list)
        for trial, measures in rows:
            self._runs[trial.figure, trial.series].append((trial, measures))

    def runs(self, figure: str, series: str, **where: object) -> list[Measures]:
        return [measures for trial, measures in self._runs[figure, series] if matches(trial, where)]

    def seconds(self, figure: str, series: str, measure: str = "throughput", **where: object) -> Column:
        mean: Column = np.mean([run[measure] for run in self.runs(figure, series, **where)], axis=0)
        return mean

    def each(self, figure: str, series: str, measure: str = "throughput", **where: object) -> list[float]:
        """Return a measure's mean over time, run by run."""
        return [float(np.mean(run[measure])) for run in self.runs(figure, series, **where)]

    def curve(self, figure: str, series: str, measure: str = "throughput", last: int = 0, **where: object) -> Curve:
        """Return the mean over time (over the last seconds only if `last` is given) for every x, over all seeds."""
        points: dict[float, list[float]] = defaultdict(list)
        for trial, measures in self._runs[figure, series]:
            if matches(trial, where):
                points[trial.x].append(float(np.mean(measures[measure][-last:])))
        return {x: float(np.mean(values)) for x, values in sorted(points.items())}

    @property
    def baseline(self) -> float:
        return float(np.mean(self.each("6", "unperturbed")))


def span(values: Iterable[float]) -> str:
    """Return the mean of some values, and their range.

    >>> span([1.0, 2.0, 3.0])
    '2 (1 to 3)'
    """
    numbers = list(values)
    if len(numbers) == 1 or max(numbers) == min(numbers):
        return f"{numbers[0]:.3g}"
    return f"{np.mean(numbers):.3g} ({min(numbers):.3g} to {max(numbers):.3g})"


def points(curve: Curve, scale: float = 1.0) -> str:
    """Return a curve in one line.

    >>> points({0: 1.0, 8: 0.5})
    '0: 1, 8: 0.5'
    """
    return ", ".join(f"{x:g}: {value / scale:.3g}" for x, value in curve.items())
