"""Contenders compared turn by turn: medians with a bootstrap interval, and the rows that tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.errors import ArgumentError
from unskew_lab.bench.harness import Better, Row

DRAWS = 10_000


@dataclass(frozen=True)
class Estimate:
    """A number, and the 95 % interval around it; None where one turn alone was measured."""

    value: float
    interval: tuple[float, float] | None

    def row(self, name: str, unit: str = "x", *, target: float | None = None, better: Better = "higher") -> Row:
        return Row(name, "unskew", self.value, unit, target=target, better=better, interval=self.interval)


def ratio_of_medians(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return the ratio of the medians of two contenders that took turns.

    The interval is a bootstrap of turns: a turn is drawn with both of its measurements, so a noisy moment of the
    machine that hurt both counts for both.

    >>> ratio_of_medians([2.0, 4.0, 6.0], [1.0, 2.0, 3.0])
    Estimate(value=2.0, interval=(2.0, 2.0))
    """
    return _estimate(above, below, np.divide)


def difference_of_medians(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Return by how much the median of one contender exceeds the other's; the interval as in `ratio_of_medians`.

    >>> difference_of_medians([3.0, 5.0, 4.0], [1.0, 3.0, 2.0])
    Estimate(value=2.0, interval=(2.0, 2.0))
    """
    return _estimate(above, below, np.subtract)


def _estimate(above: Sequence[float], below: Sequence[float], compare: Callable[..., NDArray[np.float64]]) -> Estimate:
    if len(above) != len(below) or not above:
        raise ArgumentError("both contenders need the same turns", got=(len(above), len(below)))
    turns = np.array([above, below])
    value = float(compare(*np.median(turns, axis=1)))
    if len(above) == 1:
        return Estimate(value, None)
    drawn = np.random.default_rng(0).integers(0, len(above), (DRAWS, len(above)))
    low, high = np.quantile(compare(*np.median(turns[:, drawn], axis=2)), [0.025, 0.975])
    return Estimate(value, (float(low), float(high)))


def batch_rows(name: str, seconds: Mapping[str, Sequence[float]]) -> list[Row]:
    """Return median and 95 % of every contender's batches.

    >>> [(row.name, row.contender, row.value) for row in batch_rows("count", {"native": [2.0, 2.0, 2.0]})]
    [('count: batch, median', 'native', 2.0), ('count: batch, 95 %', 'native', 2.0)]
    """
    return [
        *(
            Row(f"{name}: batch, median", who, float(np.median(taken)), "s", better="lower", samples=taken)
            for who, taken in seconds.items()
        ),
        *(
            Row(f"{name}: batch, 95 %", who, percentile_95(taken), "s", better="lower")
            for who, taken in seconds.items()
        ),
    ]


def percentile_95(seconds: Sequence[float]) -> float:
    """Return what 95 % of the batches stay within."""
    return float(np.percentile(seconds, 95))
