"""The load generator of SMALOPS: Zipf's law with a flattened head, whose keys shift every minute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Keyed, exponent_option, keys_option, option
from unskew.workloads.power_law import PowerLaw, power_law
from unskew.workloads.span import KEYS, Span


@dataclass(frozen=True, kw_only=True)
class Smalops(Keyed, name="smalops"):
    """SMALOPS' shifted Zipf: rank k is proportional to (offset + k) ** -exponent, and keys shift every minute.

    In minute m of event time, rank k is key ``(k + shift * m) mod key_count``.

    Source: Bhattacharya and Wood, SMALOPS, evaluation.

    >>> smalops = Smalops(key_count=28_000_000)
    >>> (100 * smalops.probabilities()[:3]).round(2).tolist()
    [4.48, 3.17, 2.44]
    >>> smalops.keys(interval=0, n=5).tolist(), smalops.keys(interval=6, n=5).tolist()
    ([3381822, 40, 13556, 4, 141], [112, 295, 11850, 11504120, 289650])
    """

    exponent: float = exponent_option(1.1)  # s in the paper, and in Go's rand.Zipf
    offset: float = option(2.72, above=0)  # v
    key_count: int = keys_option(1_000_000)  # the paper's long run has 28 million
    shift: int = 100  # the paper does not give it; 0 for a static load
    every_seconds: float = option(60.0, above=0)

    @property
    def law(self) -> PowerLaw:
        return power_law(self.exponent, self.key_count, self.offset)

    def draw(self, span: Span) -> NDArray[np.int64]:
        ranks = self.law.quantile(span.uniforms(self.seed, KEYS))
        return (ranks + self._distance(span.interval)) % self.key_count

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        return np.roll(self.law.probabilities(), self._distance(interval))

    def _distance(self, interval: int) -> int:
        return self.shift * int(interval * self.interval_seconds // self.every_seconds) % self.key_count
