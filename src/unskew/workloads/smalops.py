"""The load generator of SMALOPS: Zipf's law with a flattened head, whose keys shift every minute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unskew.workloads.base import Seeded, keys_option
from unskew.workloads.power_law import power_law
from unskew.workloads.span import KEYS, Span


@dataclass(frozen=True, kw_only=True)
class Smalops(Seeded, name="smalops"):
    """SMALOPS' shifted Zipf: rank k is proportional to (offset + k) ** -exponent, and keys shift every minute.

    In minute m of event time, rank k is key ``(k + shift * m) mod key_count``.

    Parameters
    ----------
    exponent, offset
        s and v of the paper, the parameters of Go's ``rand.Zipf``.
    key_count
        The paper's long run has 28 million.
    shift
        How far keys shift; the paper does not say. 0 for a static load.
    every_seconds
        How often they do.

    Examples
    --------
    >>> smalops = Smalops(key_count=28_000_000)
    >>> (100 * smalops.probabilities()[:3]).round(2).tolist()
    [4.48, 3.17, 2.44]
    >>> smalops.keys(interval=0, n=5).tolist(), smalops.keys(interval=6, n=5).tolist()
    ([3381822, 40, 13556, 4, 141], [112, 295, 11850, 11504120, 289650])

    References
    ----------
    Bhattacharya and Wood, SMALOPS, evaluation.
    """

    exponent: float = 1.1
    offset: float = 2.72
    key_count: int = keys_option(1_000_000)
    shift: int = 100
    every_seconds: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check("exponent", self.exponent, 0 <= self.exponent < 100, "0 or more")
        self.check("offset", self.offset, self.offset > 0, "above 0")
        self.check("keys", self.key_count, self.key_count > 0, "above 0")
        self.check("every_seconds", self.every_seconds, self.every_seconds > 0, "above 0")

    @property
    def domain(self) -> int:
        """The number of keys."""
        return self.key_count

    def draw(self, span: Span) -> NDArray[np.int64]:
        """Return shifted ranks."""
        ranks = power_law(self.exponent, self.key_count, self.offset).quantile(span.uniforms(self.seed, KEYS))
        return (ranks + self._distance(span.interval)) % self.key_count

    def probabilities(self, interval: int = 0) -> NDArray[np.float64]:
        """Return the shifted law of the interval's minute."""
        law = power_law(self.exponent, self.key_count, self.offset).probabilities()
        return np.roll(law, self._distance(interval))

    def _distance(self, interval: int) -> int:
        return self.shift * int(interval * self.interval_seconds // self.every_seconds) % self.key_count
