"""What the trials measured, looked up by their parameters."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from unskew_lab.experiments.claims import listed
from unskew_lab.experiments.gedik.grid import Trial
from unskew_lab.experiments.runner import Measures

Curve = dict[Any, float]
show = partial(listed, form=".4g")


class Results:
    """Measures of trials, as means over the seeds. Parameters that are not named have the paper's defaults.

    >>> runs = [(Trial(method="scan", seed=seed), {"m": [1.0 + seed]}) for seed in (0, 1)]
    >>> Results(runs).value("m", "scan")
    1.5
    """

    def __init__(self, rows: Sequence[tuple[Trial, Measures]]) -> None:
        self._runs: dict[Trial, list[Measures]] = defaultdict(list)
        for trial, measures in rows:
            self._runs[dataclasses.replace(trial, seed=0)].append(measures)

    def value(self, measure: str, method: str, **where: Any) -> float:
        return float(np.mean(self.runs(measure, method, **where)))

    def runs(self, measure: str, method: str, **where: Any) -> list[float]:
        return [run[measure][-1] for run in self._runs[Trial(method=method, **where)]]

    def curve(self, measure: str, method: str, over: str, **where: Any) -> Curve:
        """Return the measure for each value of a parameter that was tried, in ascending order."""
        wanted = Trial(method=method, **where)
        points = {
            getattr(t, over) for t in self._runs if dataclasses.replace(t, **{over: getattr(wanted, over)}) == wanted
        }
        return {point: self.value(measure, method, **{**where, over: point}) for point in sorted(points)}

    def by_channels(self, measure: str, method: str) -> Curve:
        """Return the measure for each number of channels on the way to the most."""
        found = next(t for t in self._runs if t.every and t.method == method)
        means = np.mean([run[measure] for run in self._runs[found]], axis=0)
        return dict(zip(map(int, self._runs[found][0]["channels"]), means.tolist(), strict=True))


def percent(values: Mapping[Any, float]) -> str:
    """Return shares in one line.

    >>> percent({"ring": 0.175, "scan": 1 / 3})
    'ring 17.5, scan 33.33 %'
    """
    return show(values, scale=100) + " %"


def milliseconds(seconds: Mapping[Any, float]) -> str:
    """Return times in one line.

    >>> milliseconds({"scan": 0.0004})
    'scan 0.4 ms'
    """
    return listed(seconds, scale=1e3) + " ms"


def between(value: float, low: float, high: float) -> bool:
    """Tell whether a value lies within two bounds, bounds included."""
    return low <= value <= high


def slope(curve: Curve) -> float:
    """Return the exponent of a power law fitted to a curve of positive values.

    >>> round(slope({1: 3.0, 2: 12.0, 4: 48.0}), 6)
    2.0
    """
    x, y = np.log(list(curve)), np.log(list(curve.values()))
    return float(np.polyfit(x, y, 1)[0])


def linearity(curve: Curve) -> float:
    """Return how well a straight line explains a curve: R squared, 1 if it is one."""
    return float(np.corrcoef(list(curve), list(curve.values()))[0, 1] ** 2)
