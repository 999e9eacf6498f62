"""What the trials measured, looked up by their parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from unskew_lab.experiments.claims import listed
from unskew_lab.experiments.pkg.grid import Trial
from unskew_lab.experiments.runner import Measures, matches

Curve = dict[Any, float]
show = partial(listed, form=".1e")  # numbers of very different size
plain = partial(listed, between=": ")


class Results:
    """Measures of trials: medians over the hash functions that were tried, since a hot key may be unlucky with one.

    >>> trial = Trial(figure="4", data="wp", workers=(5, 10), seeds=3)
    >>> results = Results([(trial, {"end": [0.1, 0.2, 0.3, 1.0, 5.0, 2.0]})])
    >>> results.value("end", 10, figure="4", data="wp")
    2.0
    """

    def __init__(self, rows: Sequence[tuple[Trial, Measures]]) -> None:
        self._rows = {_plain(trial): (trial, measures) for trial, measures in rows}

    def runs(self, measure: str, workers: int, **where: Any) -> list[float]:
        trial, measures = self._rows[_plain(Trial(**where))]
        first = trial.workers.index(workers) * trial.seeds
        return measures[measure][first : first + trial.seeds]

    def value(self, measure: str, workers: int, **where: Any) -> float:
        return float(np.median(self.runs(measure, workers, **where)))

    def top_share(self, **where: Any) -> float:
        return self._rows[_plain(Trial(**where))][1]["top_share"][0]

    def over_time(self, workers: int, **where: Any) -> list[float]:
        """Return the imbalance over the tuples so far, point by point."""
        return self._rows[_plain(Trial(**where))][1][f"curve {workers}"]

    def tried(self, field: str, **where: Any) -> list[Any]:
        asked = {name: value for name, value in where.items() if name != field}
        return sorted({getattr(t, field) for t in self._rows if matches(t, asked)})


def _plain(trial: Trial) -> Trial:
    return dataclasses.replace(trial, seeds=0, messages=0, workers=())
