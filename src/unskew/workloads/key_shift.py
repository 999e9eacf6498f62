"""Drift by renaming: every minute all keys shift by some places."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Drift, option
from unskew.workloads.span import Span


@dataclass(frozen=True, kw_only=True)
class KeyShift(Drift, name="key-shift"):
    """Another workload whose key ids all shift every minute of event time.

    The skew stays the same; who is hot changes at once, and a table of hot keys is out of date at once.

    Source: Bhattacharya and Wood, SMALOPS, evaluation of dynamic load.

    >>> from unskew.workloads import workload
    >>> shifting = workload("key-shift", base="zipf", exponent=1.5, keys=1000, shift=100)
    >>> [int(shifting.probabilities(interval).argmax()) for interval in (0, 5, 6, 12)]
    [0, 0, 100, 200]
    """

    shift: int = 100  # places per step
    every_seconds: float = option(60.0, above=0)  # event time between two steps

    def draw(self, span: Span) -> NDArray[np.int64]:
        return (self.base.draw(span) + self._distance(span.interval)) % self.domain

    def probabilities(self, interval: int = 0) -> NDArray[np.float64] | None:
        law = self.base.probabilities(interval)
        return None if law is None else np.roll(law, self._distance(interval))

    def _distance(self, interval: int) -> int:
        return self.shift * int(interval * self.interval_seconds // self.every_seconds) % self.domain
