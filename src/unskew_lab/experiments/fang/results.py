"""What the trials measured, looked up by their parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from unskew_lab.experiments.fang.grid import Trial
from unskew_lab.experiments.runner import matches

Curve = dict[Any, float]
Summary = Callable[[list[float]], Any]


class Results:
    """Trials and their measures.

    >>> fast, slow = (Trial(figure="9", planner="mixed", tolerance=t) for t in (0.2, 0.02))
    >>> results = Results([(slow, {"plan_seconds": [3.0, 5.0]}), (fast, {"plan_seconds": [1.0]})])
    >>> results.curve("plan_seconds", "tolerance", figure="9")
    {0.02: 4.0, 0.2: 1.0}
    """

    def __init__(self, rows: Sequence[tuple[Trial, dict[str, list[float]]]]) -> None:
        self.rows = list(rows)

    def values(self, measure: str, **where: object) -> list[float]:
        """Return all numbers of a measure from the trials that match."""
        found = [value for trial, measures in self.rows if matches(trial, where) for value in measures.get(measure, [])]
        if not found:
            raise LookupError(f"no trial measured {measure} where {where}")
        return found

    def value(self, measure: str, how: Summary = np.mean, **where: object) -> float:
        return float(how(self.values(measure, **where)))

    def curve(self, measure: str, over: str, how: Summary = np.mean, **where: object) -> Curve:
        """Return the measure for each value of a parameter, in ascending order."""
        points = sorted({getattr(trial, over) for trial, _ in self.rows if matches(trial, where)})
        return {point: self.value(measure, how, **where, **{over: point}) for point in points}

    def series(self, measure: str, **where: object) -> list[float]:
        runs = [measures[measure] for trial, measures in self.rows if matches(trial, where)]
        means: list[float] = np.mean(runs, axis=0).tolist()
        return means


def trend(curve: Curve) -> float:
    """Return Spearman's rank correlation of a curve: 1 if it always rises, -1 if it always falls.

    >>> trend({1: 0.5, 2: 0.7, 4: 3.0})
    1.0
    """
    x, y = (rankdata(values) for values in (list(curve), list(curve.values())))
    return float(np.round(np.corrcoef(x, y)[0, 1], 6)) if len(set(y)) > 1 else 0.0
