"""Power laws over any number of keys: draws by inversion, with no table for the long tail."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from unskew.workloads.discrete import guide_table, search

HEAD = 65_536


@njit(cache=True)
def _kernel_quantile(uniforms, cumulative, guide, scale, total, edge, slope, largest, drawn):  # type: ignore[no-untyped-def]
    head = cumulative[-1]
    shrink = edge ** (-slope)
    for row in range(uniforms.size):
        target = uniforms[row] * total
        if target < head:
            drawn[row] = search(cumulative, guide, scale, target)
        else:  # invert the integral of x ** (slope - 1) from edge; rank r covers r - 1/2 to r + 1/2
            rest = (target - head) * shrink
            beyond = edge * math.expm1(math.log1p(slope * rest) / slope if slope != 0.0 else rest)
            drawn[row] = cumulative.size + int(beyond) if beyond < largest - cumulative.size else largest


def power_integral(low: float, high: float, exponent: float) -> float:
    """Return the integral of ``x ** -exponent`` from `low` to `high`, well conditioned also near exponent 1."""
    slope, span = 1.0 - exponent, math.log(high / low)
    return math.pow(low, slope) * (math.expm1(slope * span) / slope if slope else span)


def power_sum(exponent: float, keys: int) -> float:
    """Return the sum of ``rank ** -exponent`` over ranks 1 .. keys, right to about 1e-13, in microseconds.

    The generalised harmonic number: 1,024 terms, then Euler and Maclaurin's midpoint formula with one correction.

    >>> round(power_sum(1.0, 4), 6)
    2.083333
    >>> round(power_sum(0.921, 31_000_000), 4)
    37.366
    """
    head = min(keys, 1024)
    total = float(np.sum(np.arange(1, head + 1, dtype=np.float64) ** -exponent))
    if keys > head:
        low, high = head + 0.5, keys + 0.5
        bend = exponent * (high ** (-exponent - 1) - low ** (-exponent - 1)) / 24
        total += power_integral(low, high, exponent) + bend
    return total


class PowerLaw:
    """Ranks 0 .. keys-1 with probability proportional to ``(offset + rank) ** -exponent``.

    The offset is 1 for Zipf's law. The first 65,536 ranks are tabulated; beyond them a rank is a rounded draw of the
    continuous power law, right to exponent * (exponent + 1) / (24 * 65536**2) of its own probability, which is under
    1e-10 up to exponent 2. So 30 million keys cost no more memory than 65,536.

    >>> law = PowerLaw(1.0, 3)
    >>> law.probabilities().round(4).tolist()
    [0.5455, 0.2727, 0.1818]
    >>> law.quantile(np.array([0.0, 0.54, 0.55, 0.99])).tolist()
    [0, 0, 1, 2]
    >>> round(PowerLaw(1.1, 28_000_000, offset=2.72).top_share, 4)
    0.0448
    """

    def __init__(self, exponent: float, keys: int, offset: float = 1.0) -> None:
        self.exponent, self.keys, self.offset = exponent, keys, offset
        self._cumulative = np.cumsum(self.weights(0, min(keys, HEAD)))
        self._guide, self._scale = guide_table(self._cumulative)
        self._edge = offset + HEAD - 0.5
        head = float(self._cumulative[-1])
        self.total = head + (power_integral(self._edge, offset + keys - 0.5, exponent) if keys > HEAD else 0.0)

    @property
    def top_share(self) -> float:
        return float(self.offset**-self.exponent / self.total)

    def weights(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the weights of ranks `start` to `stop`; divided by `total` they are probabilities."""
        weights: NDArray[np.float64] = np.power(self.offset + np.arange(start, stop, dtype=np.float64), -self.exponent)
        return weights

    def probabilities(self) -> NDArray[np.float64]:
        """Return the probability of every rank; 8 bytes each."""
        return self.weights(0, self.keys) / self.total

    def quantile(self, uniforms: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return one rank per number in [0, 1); O(1) each."""
        drawn = np.empty(uniforms.size, dtype=np.int64)
        law = (self._cumulative, self._guide, self._scale, self.total, self._edge, 1.0 - self.exponent, self.keys - 1)
        _kernel_quantile(uniforms, *law, drawn)
        return drawn


@lru_cache(maxsize=16)
def power_law(exponent: float, keys: int, offset: float = 1.0) -> PowerLaw:
    """Return a `PowerLaw` from a cache, so that a process builds its table once, not for every Spark task."""
    return PowerLaw(exponent, keys, offset)
