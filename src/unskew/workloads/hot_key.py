"""Drift by a hot key that appears out of nowhere and vanishes again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Drift, option
from unskew.workloads.span import Span, uniforms


@dataclass(frozen=True, kw_only=True)
class HotKey(Drift, name="hot-key"):
    """Another workload in which, time and again, one key out of all suddenly takes a share of the rows.

    Of every `every_intervals` intervals the last `lasts_intervals` have a hot key, each time another one.

    >>> from unskew.workloads import workload
    >>> visited = workload("hot-key", exponent=0, keys=1000, share=0.5, every_intervals=4, lasts_intervals=2)
    >>> [visited.hot_key(interval) for interval in range(8)]
    [None, None, 816, 816, None, None, 108, 108]
    >>> float(visited.probabilities(2).max().round(4))
    0.5005
    """

    share: float = option(0.2, at_least=0, at_most=1)  # part of the rows that it takes
    every_intervals: int = option(20, above=0)  # from one appearance to the next
    lasts_intervals: int = option(10, at_least=0)  # how long the key stays

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("lasts_intervals", self.lasts_intervals <= self.every_intervals, "in 0 .. every_intervals")

    def hot_key(self, interval: int) -> int | None:
        """Return the id of the hot key of an interval, or None when there is none."""
        appearance, phase = divmod(interval, self.every_intervals)
        if phase < self.every_intervals - self.lasts_intervals:
            return None
        return int(uniforms(self.seed, appearance, self.stream, 1)[0] * self.domain)

    def draw(self, span: Span) -> NDArray[np.int64]:
        ids = self.base.draw(span)
        hot = self.hot_key(span.interval)
        return ids if hot is None else np.where(span.uniforms(self.seed, self.stream + 64) < self.share, hot, ids)

    def probabilities(self, interval: int = 0) -> NDArray[np.float64] | None:
        law, hot = self.base.probabilities(interval), self.hot_key(interval)
        if law is None or hot is None:
            return law
        mixed = law * (1 - self.share)
        mixed[hot] += self.share
        return mixed
