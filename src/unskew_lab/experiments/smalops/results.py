"""What the trials measured, looked up by their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from unskew_lab.experiments.runner import Measures, matches
from unskew_lab.experiments.smalops.grid import Trial
from unskew_lab.experiments.smalops.trial import PERCENTILES

P99 = PERCENTILES.index(99)


class Results:
    """Measures of trials: means over the seeds, each of which has other keys on other partitions.

    >>> rows = [(Trial(figure="7", seed=seed), {"moves": [10.0 + seed]}) for seed in (0, 1)]
    >>> Results(rows).value("moves", figure="7")
    10.5
    """

    def __init__(self, rows: Sequence[tuple[Trial, Measures]]) -> None:
        self._rows = list(rows)

    def runs(self, **where: Any) -> list[Measures]:
        found = [measures for trial, measures in self._rows if matches(trial, where)]
        if not found:
            raise LookupError(f"no trial has {where}")
        return found

    def value(self, measure: str, **where: Any) -> float:
        return float(np.mean([run[measure][0] for run in self.runs(**where)]))

    def p99(self, which: str = "broker all", **where: Any) -> float:
        """Return the mean 99th percentile of the delay in microseconds."""
        return float(np.mean([run[which][P99] for run in self.runs(**where)]))

    def curve(self, which: str = "broker all", **where: Any) -> dict[float, float]:
        """Return the mean delay in microseconds by percentile."""
        curves = np.mean([run[which] for run in self.runs(**where)], axis=0)
        return dict(zip(PERCENTILES, curves.tolist(), strict=True))

    def gains(self, which: str = "broker all", **where: Any) -> list[float]:
        """Return, seed by seed, by what share the 99th percentile lies below Kafka's."""
        of = {name: value for name, value in where.items() if name != "contender"}
        ours, kafka = (self.runs(contender=who, **of) for who in ("smalops", "kafka"))
        return [1 - a[which][P99] / b[which][P99] for a, b in zip(ours, kafka, strict=True)]

    def tried(self, field: str, **where: Any) -> list[Any]:
        return sorted({getattr(trial, field) for trial, _ in self._rows if matches(trial, where)})


def percent(values: Sequence[float]) -> str:
    """Return the range of some shares in words.

    >>> percent([0.661, 0.704]), percent([0.5])
    ('66 to 70 %', '50 %')
    """
    low, high = round(100 * min(values)), round(100 * max(values))
    return f"{low} %" if low == high else f"{low} to {high} %"


def microseconds(value: float) -> str:
    """Return a delay as people read it.

    >>> [microseconds(v) for v in (12.34, 4321.0, 5.6e6)]
    ['12 us', '4.3 ms', '5.6 s']
    """
    if value < 1000:
        return f"{value:.0f} us"
    return f"{value / 1e3:.1f} ms" if value < 1e6 else f"{value / 1e6:.1f} s"
