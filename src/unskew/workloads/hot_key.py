"""Drift by a hot key that appears out of nowhere and vanishes again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Drift
from unskew.workloads.span import Span, uniforms


@dataclass(frozen=True, kw_only=True)
class HotKey(Drift, name="hot-key"):
    """Another workload in which, time and again, one key out of all suddenly takes a share of the rows.

    Of every `every_intervals` intervals the last `lasts_intervals` have a hot key, each time another one.

    Parameters
    ----------
    base
        What the key appears in.
    share
        Part of the rows that it takes.
    every_intervals, lasts_intervals
        How often it appears and how long it stays.

    Examples
    --------
    >>> from unskew.workloads import workload
    >>> visited = workload("hot-key", exponent=0, keys=1000, share=0.5, every_intervals=4, lasts_intervals=2)
    >>> [visited.hot_key(interval) for interval in range(8)]
    [None, None, 816, 816, None, None, 108, 108]
    >>> float(visited.probabilities(2).max().round(4))
    0.5005
    """

    share: float = 0.2
    every_intervals: int = 20
    lasts_intervals: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("share", self.share, 0 <= self.share <= 1, "in [0, 1]")
        self.check("every_intervals", self.every_intervals, self.every_intervals > 0, "above 0")
        fits = 0 <= self.lasts_intervals <= self.every_intervals
        self.check("lasts_intervals", self.lasts_intervals, fits, "in 0 .. every_intervals")

    def hot_key(self, interval: int) -> int | None:
        """Return the id of the hot key of an interval, or None when there is none."""
        appearance, phase = divmod(interval, self.every_intervals)
        if phase < self.every_intervals - self.lasts_intervals:
            return None
        return int(uniforms(self.seed, appearance, self.stream, 1)[0] * self.domain)

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return the ids of the base, part of them replaced by the hot key."""
        ids = self.base.draw(span)
        hot = self.hot_key(span.interval)
        return ids if hot is None else np.where(span.uniforms(self.seed, self.stream + 64) < self.share, hot, ids)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64] | None:
        """Return the law of the base, made room for the hot key."""
        law, hot = self.base.probabilities(interval), self.hot_key(interval)
        if law is None or hot is None:
            return law
        mixed = law * (1 - self.share)
        mixed[hot] += self.share
        return mixed
