"""Does a measured value grow with time? A robust slope, with an interval that allows for samples that hang together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import theilslopes

from unskew_lab.bench.harness import Row

BLOCKS = 20
FEWEST_SAMPLES = 2 * BLOCKS
DAY = 86_400.0


@dataclass(frozen=True)
class Slope:
    """How much a value grows in a second, and where that lies with 95 % confidence."""

    value: float
    low: float
    high: float


def slope(seconds: Sequence[float], values: Sequence[float]) -> Slope:
    """Return the slope of a series.

    The series is cut into blocks, and the medians of the blocks stand for it: so samples that follow each other
    closely, and single outliers, count for little. The slope is the median of the slopes between all pairs of blocks
    (Theil and Sen), with Sen's interval. Where neighbouring blocks are still alike, the interval is widened as for an
    autoregressive process.

    >>> slope(range(100), [2 * second for second in range(100)])
    Slope(value=2.0, low=2.0, high=2.0)
    """
    at, height = (
        np.array([np.median(block) for block in np.array_split(np.asarray(column, float), BLOCKS)])
        for column in (seconds, values)
    )
    value, start, low, high = (float(each) for each in theilslopes(height, at))
    left = height - (start + value * at)
    alike = 0.0
    if left.std() > 0:
        alike = float(np.clip(np.mean((left - left.mean())[1:] * (left - left.mean())[:-1]) / left.var(), 0, 0.9))
    wider = ((1 + alike) / (1 - alike)) ** 0.5
    return Slope(value, value - wider * (value - low), value + wider * (high - value))


@dataclass(frozen=True)
class SlopeRow(Row):
    """A slope as growth per day. It is flat if its interval contains zero, or a day would add less than the target."""

    @property
    def met(self) -> bool | None:
        """Whether the slope is flat; None where there were too few samples to tell.

        >>> SlopeRow("memory", "unskew", 9.0, "MB/day", target=5.0, interval=(-1.0, 19.0)).met
        True
        >>> SlopeRow("memory", "unskew", 9.0, "MB/day", target=5.0, interval=(8.0, 10.0)).met
        False
        """
        if self.target is None or self.interval is None:
            return None
        return self.interval[0] <= 0 or self.value <= self.target


def slope_row(name: str, unit: str, series: Sequence[tuple[float, float]], begins: float, bound: float) -> SlopeRow:
    """Return the growth per day of a series of (seconds, value), judged by what comes after `begins`.

    All samples are kept for the picture.
    """
    samples = tuple(value for _, value in series)
    fitted = [(second, value) for second, value in series if second >= begins]
    if len(fitted) < FEWEST_SAMPLES:
        return SlopeRow(name, "unskew", float("nan"), f"{unit}/day", better="lower", samples=samples)
    found = slope(*zip(*fitted, strict=True))
    low, high = DAY * found.low, DAY * found.high
    value = DAY * found.value
    return SlopeRow(
        name, "unskew", value, f"{unit}/day", target=bound, better="lower", samples=samples, interval=(low, high)
    )
